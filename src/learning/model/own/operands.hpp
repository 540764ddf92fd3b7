// SPDX-License-Identifier: Apache-2.0
// What the executor asks of a type of operands: 8-bit integers with a scale for each sample, or
// floats, which are not rounded and whose scale is 1. No torch.

#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <span>
#include <type_traits>

#include "core/random.hpp"
#include "int8/convolution.hpp"
#include "int8/quantize.hpp"
#include "model/own/float_convolution.hpp"
#include "model/own/passes.hpp"

namespace eqt::model::precision {

template <typename Operand>
inline constexpr bool kIsRounded = std::is_same_v<Operand, std::int8_t>;

template <typename Operand>
using ConvolutionOf = std::conditional_t<kIsRounded<Operand>, int8::Convolution, FloatConvolution>;

template <typename Operand>
ConvolutionOf<Operand> make_convolution(const int8::ConvolutionShape& shape,
                                        int8::Kernels kernels) {
  if constexpr (kIsRounded<Operand>) {
    return int8::Convolution(shape, kernels);
  } else {
    return FloatConvolution(shape);
  }
}

/// The zero point of an activation.
template <typename Operand>
constexpr int zero_point_of(bool rectified) {
  return kIsRounded<Operand> && rectified ? int8::kUnsignedZeroPoint : 0;
}

// Floats as operands, by their largest magnitude. @return their scale
inline float round_activation(bool rectified, float largest, Floats x, std::span<std::int8_t> q) {
  return rectified ? int8::quantize_unsigned(largest, x, q) : int8::quantize_signed(largest, x, q);
}
inline float round_activation(bool /*rectified*/, float /*largest*/, Floats x, std::span<float> q) {
  std::ranges::copy(x, q.begin());
  return 1;
}

/// Rounds floats again, by the scale that they had.
inline void round_again(bool rectified, float scale, Floats x, std::span<std::int8_t> q) {
  (rectified ? int8::quantize_unsigned_again : int8::quantize_signed_again)(scale, x, q);
}
inline void round_again(bool /*rectified*/, float /*scale*/, Floats x, std::span<float> q) {
  std::ranges::copy(x, q.begin());
}

inline float round_error(bool nearest, float largest, Floats x, std::span<std::int8_t> q,
                         const RandomKey& key, std::uint32_t block) {
  return nearest ? int8::quantize_signed(largest, x, q)
                 : int8::quantize_stochastic(largest, x, q, key, block);
}
inline float round_error(bool /*nearest*/, float /*largest*/, Floats x, std::span<float> q,
                         const RandomKey& /*key*/, std::uint32_t /*block*/) {
  std::ranges::copy(x, q.begin());
  return 1;
}

}  // namespace eqt::model::precision
