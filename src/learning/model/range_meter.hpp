// SPDX-License-Identifier: Apache-2.0
// Ranges as a measure of spread: the mean over chunks of (max - min), for range norms. No torch.
//
// Source   R. Banner, I. Hubara, E. Hoffer, D. Soudry, NeurIPS 2018, arXiv:1805.11046, section 3

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "model/range_kernels.hpp"

namespace eqt::model {

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
