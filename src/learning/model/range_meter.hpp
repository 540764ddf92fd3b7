// SPDX-License-Identifier: Apache-2.0
// Ranges as a measure of spread: the mean over chunks of (max - min), for range norms, and the
// vector kernel that finds the extremes. No torch.
//
// Shapes   as in norm_kernels.hpp
// Source   R. Banner, I. Hubara, E. Hoffer, D. Soudry, NeurIPS 2018, arXiv:1805.11046, section 3

#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

namespace eqt::model {

/// Largest and smallest value of each channel and the rows that have them.
struct Extremes {
  std::span<float> max, min;
  std::span<std::int32_t> max_row, min_row;
};

class ExtremesBuffer {
 public:
  explicit ExtremesBuffer(std::size_t channels)
      : max_(channels), min_(channels), max_row_(channels), min_row_(channels) {
    clear();
  }

  void clear() {
    constexpr float kInfinity = std::numeric_limits<float>::infinity();
    for (std::size_t c = 0; c < max_.size(); ++c) {
      max_[c] = -kInfinity;
      min_[c] = kInfinity;
      max_row_[c] = min_row_[c] = 0;
    }
  }

  Extremes extremes() { return {max_, min_, max_row_, min_row_}; }

 private:
  std::vector<float> max_, min_;
  std::vector<std::int32_t> max_row_, min_row_;
};

/// Widens `extremes` by a block of rows, numbered from `first_row`. Of equal values the first is
/// kept; NaN is ignored.
void update_extremes(std::span<const float> x, std::size_t first_row, const Extremes& extremes);

/// A range is the mean over this many chunks.
inline constexpr std::size_t kRangeChunks = 16;

/// 0.5 * 0.35 * (1 + sqrt(pi * ln 4)) / sqrt(2 * ln n): the expected range of n normal values is
/// about their deviation divided by this; the constant is that of the source's published code.
/// @pre n >= 2
double range_factor(std::size_t n);

/// Returns the inverse of what values are divided by: 1 / (range_factor(n) * range + epsilon).
double inverse_range(double range, std::size_t n);

/// Values in each chunk of `count` values.
/// @throws Error{usage} unless they can be cut into 16 chunks of at least 2 values
std::size_t chunk_values(std::size_t count, const std::string& layer, const std::string& what);

/// Share of the newest batch in the running values of range batch normalization: that of the
/// source's published code.
inline constexpr double kRangeBatchNormMomentum = 0.9;

/// Measures the groups of channels of one sample after another, (rows, channels); one per thread. A
/// group's values are ordered by channel, so a chunk is a part of a channel, a channel, or several.
class RangeMeter {
 public:
  /// @pre groups divide the channels, kRangeChunks the values of a group
  RangeMeter(std::size_t rows, std::size_t channels, std::size_t groups);

  /// @param inverse  (groups) inverse_range() of each
  /// @param where  (groups, chunks, 2): offset in the sample of the chunk's first maximum, and of
  /// its first minimum
  template <typename T>
  void measure(std::span<const float> x, std::span<T> inverse, std::span<std::int32_t> where) {
    scan(x);
    constexpr std::size_t kEnds = 2 * kRangeChunks;
    for (std::size_t group = 0; group < groups_; ++group) {
      const double range = mean_range(group, where.subspan(group * kEnds, kEnds));
      inverse[group] = static_cast<T>(inverse_range(range, chunk_));
    }
  }

 private:
  void scan(std::span<const float> x);
  double mean_range(std::size_t group, std::span<std::int32_t> where);

  std::size_t rows_, channels_, groups_;
  std::size_t chunk_;                  // [values]
  std::vector<std::size_t> cuts_;      // pixels where a channel's chunk ends; from 0 to rows
  std::vector<ExtremesBuffer> parts_;  // from one cut to the next
};

}  // namespace eqt::model
