// SPDX-License-Identifier: Apache-2.0
// Sums by channel, a few channels and pixels at a time. Included once per vector target, inside the
// files that Highway compiles for each (its "-inl" convention).

#include <hwy/highway.h>

#include <algorithm>
#include <cstddef>
#include <type_traits>

#include "model/own/channel_rows.hpp"

// Either both or neither is defined: the guard flips with each target.
#if defined(EQT_MODEL_PRECISION_CHANNEL_ROWS_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef EQT_MODEL_PRECISION_CHANNEL_ROWS_INL_HPP
#undef EQT_MODEL_PRECISION_CHANNEL_ROWS_INL_HPP
#else
#define EQT_MODEL_PRECISION_CHANNEL_ROWS_INL_HPP
#endif

HWY_BEFORE_NAMESPACE();
namespace eqt::model::precision::HWY_NAMESPACE {

/// Calls body(first value, first channel, pixels, channels) for tiles of kTile channels, a constant
/// of their type, and of what is left, each of at most `most` pixels.
template <typename Body>
HWY_INLINE void for_each_tile(std::size_t count, std::size_t channels, std::size_t most,
                              const Body& body) {
  const std::size_t pixels = count / channels;
  for (std::size_t p = 0; p < pixels; p += most) {
    const std::size_t some = std::min(most, pixels - p), at = p * channels;
    std::size_t c = 0;
    for (; c + kTile <= channels; c += kTile)
      body(at + c, c, some, std::integral_constant<std::size_t, kTile>());
    if (c < channels) body(at + c, c, some, channels - c);
  }
}

}  // namespace eqt::model::precision::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
