// SPDX-License-Identifier: Apache-2.0
// Operands of convolutions: 8-bit integers with a scale for each sample, or floats, which are not
// rounded and whose scale is 1. No torch.

#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

#include "core/error.hpp"
#include "core/layout.hpp"
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

/// Rounds weights, or lays floats out.
/// @throws Error{diverged} naming step and layer if a value is NaN or infinite
template <typename Product>
void set_weights(Product& product, Floats weights, bool one_scale, StepId step,
                 const std::string& layer) {
  try {
    product.set_weights(weights, one_scale);
  } catch (const Error& error) {
    fail(error.kind(), "step {}, {}: {}", step, layer, error.what());
  }
}

using LabelText = std::array<char, 160>;

/// Writes what messages call values, and allocates nothing. @return a part of `text`
inline std::string_view write_label(StepId step, const std::string& layer, const char* what,
                                    LabelText& text) {
  const auto end = fmt::format_to_n(text.data(), text.size(), "step {}, {}: {}", step, layer, what);
  return {text.data(), std::min(end.size, text.size())};
}

// Floats as operands, by their largest magnitude, with the zero point of a quantizer, which says
// what values there are. @return their scale
inline float round_activation(int zero_point, float largest, Floats x, std::span<std::int8_t> q) {
  if (zero_point == int8::kUnsignedZeroPoint) return int8::quantize_unsigned(largest, x, q);
  if (zero_point == int8::kShiftedZeroPoint) return int8::quantize_shifted(largest, x, q);
  return int8::quantize_signed(largest, x, q);
}
inline float round_activation(int /*zero_point*/, float /*largest*/, Floats x, std::span<float> q) {
  std::ranges::copy(x, q.begin());
  return 1;
}

/// Rounds floats again, by the scale that they had.
inline void round_again(int zero_point, float scale, Floats x, std::span<std::int8_t> q) {
  if (zero_point == int8::kUnsignedZeroPoint) return int8::quantize_unsigned_again(scale, x, q);
  if (zero_point == int8::kShiftedZeroPoint) return int8::quantize_shifted_again(scale, x, q);
  int8::quantize_signed_again(scale, x, q);
}
inline void round_again(int /*zero_point*/, float /*scale*/, Floats x, std::span<float> q) {
  std::ranges::copy(x, q.begin());
}

inline float round_error(bool nearest, float largest, Floats x, std::span<std::int8_t> q,
                         const RandomKey& key, std::uint32_t block, std::size_t first) {
  return nearest ? int8::quantize_signed(largest, x, q)
                 : int8::quantize_stochastic(largest, x, q, key, block, first);
}
inline float round_error(bool /*nearest*/, float /*largest*/, Floats x, std::span<float> q,
                         const RandomKey& /*key*/, std::uint32_t /*block*/, std::size_t /*first*/) {
  std::ranges::copy(x, q.begin());
  return 1;
}

}  // namespace eqt::model::precision
