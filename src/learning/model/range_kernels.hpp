// SPDX-License-Identifier: Apache-2.0
// Vector kernel of normalization by ranges: extremes of each channel and their positions. No torch.
//
// Shapes   as in norm_kernels.hpp

#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
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

}  // namespace eqt::model
