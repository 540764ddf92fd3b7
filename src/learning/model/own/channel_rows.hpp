// SPDX-License-Identifier: Apache-2.0
// Rows of channels, as the loops of passes.cpp and gated_passes.cpp go through them.

#pragma once

#include <algorithm>
#include <cstddef>

#include "core/error.hpp"

namespace eqt::model::precision {

inline constexpr std::size_t kTile = 16;      // channels at a time
inline constexpr std::size_t kFloatSum = 64;  // pixels of a sum in float32

/// Parameters of a row of several pixels, so that vectors are full where there are few channels.
class WideRow {
 public:
  explicit WideRow(std::size_t channels)
      : channels_(channels), width_(std::max<std::size_t>(1, kWide / channels) * channels) {}

  std::size_t width() const { return width_; }

  /// The parameter of each column: `values` itself, or its repetition in `memory`.
  const float* spread(const float* values, float* memory) const {
    if (width_ == channels_) return values;
    for (std::size_t i = 0; i < width_; i += channels_) std::copy_n(values, channels_, memory + i);
    return memory;
  }

  static constexpr std::size_t kWide = 256;  // [floats] 16 vectors of AVX-512

 private:
  std::size_t channels_, width_;
};

inline void check_rows(std::size_t values, std::size_t channels, std::size_t others) {
  EQT_CHECK(channels > 0 && values % channels == 0 && others == values,
            "{} values and {} of {} channels", values, others, channels);
}

}  // namespace eqt::model::precision
