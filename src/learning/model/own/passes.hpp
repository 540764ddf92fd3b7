// SPDX-License-Identifier: Apache-2.0
// What happens to the values of a sample between two convolutions: normalization, residual sum,
// activation, their gradients. No torch.
//
// Shapes   values are (pixels, channels) row-major, parameters (channels)
// Operands of convolutions are 8-bit integers with a scale, or floats, whose scale is 1
// Numbers  every result is the same on all processors: an operation rounds once, sums have a fixed
//          order that does not depend on the width of vectors, sums of 8-bit values are integers

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

#include "data/images.hpp"
#include "model/evonorm_kernels.hpp"

namespace eqt::model::precision {

using Bytes = std::span<const std::int8_t>;
using Floats = std::span<const float>;

/// Sums of products of 8-bit operands are exact in this type; those of floats are collected in it.
template <typename Operand>
using SumOf = std::conditional_t<std::is_same_v<Operand, float>, double, std::int64_t>;

/// A value of each filter at each place where a patch lies in the picture: out (height - side + 1,
/// width - side + 1, filters).
/// @param weights  (side, side, channels, filters)
/// @param bias  (filters), a multiple of 8
void filter_patches(Floats picture, const data::ImageShape& shape, int side, Floats weights,
                    Floats bias, std::span<float> out);

/// x += bias.
void add_bias(Floats bias, std::span<float> x);

/// sums = sum of each channel, in float32 for 64 pixels at a time.
void channel_sums(Floats x, std::span<double> sums);
/// squares = sum of (x - mean)^2, likewise.
void channel_squares(Floats x, Floats mean, std::span<double> squares);

/// Output says what becomes of a result y.
enum class Output {
  plain,      // out = y
  added,      // out = out + y
  rectified,  // out = max(y, 0)
  clipped,    // out = min(max(y, 0), kClip)
};

inline constexpr float kClip = 6;  // ReLU6's

/// y = q * scale + shift.
void affine(Bytes q, Floats scale, Floats shift, Output output, std::span<float> out);
void affine(Floats q, Floats scale, Floats shift, Output output, std::span<float> out);
/// low and high = the least and the greatest value of each channel.
void channel_extremes(Bytes q, std::span<std::int8_t> low, std::span<std::int8_t> high);
/// out = out + (q - zero_point) * scale.
void add_scaled(Bytes q, int zero_point, float scale, std::span<float> out);
/// @pre zero_point is 0
void add_scaled(Floats q, int zero_point, float scale, std::span<float> out);
void add(Floats x, std::span<float> out);
/// x = max(x, 0).
void rectify(std::span<float> x);

/// x = x * min(max(x + 3, 0), 6) / 6: A. Howard et al., arXiv:1905.02244, section 5.2.
void hard_swish(std::span<float> x);
/// Multiplies by its derivative at `before`.
void hard_swish_gradient(Floats before, std::span<float> error);

/// g = 0 where before <= 0, which is what ReLU was given.
void gate(Floats before, std::span<std::int8_t> g);
void gate(Floats before, std::span<float> g);
/// Sets g = 0 where before = q * scale + shift <= 0 and, of a clipped output, where it is >= kClip.
void gate_affine(Bytes q, Floats scale, Floats shift, Output output, std::span<std::int8_t> g);
void gate_affine(Floats q, Floats scale, Floats shift, Output output, std::span<float> g);

/// sums = sum of g, products = sum of g * x for each channel. @pre |g| <= 127
void error_sums(Bytes g, Bytes x, std::span<std::int64_t> sums, std::span<std::int64_t> products);
/// products = sum of g * (x - centre), in float32 for 64 pixels at a time.
void error_sums(Floats g, Floats x, Floats centre, std::span<double> sums,
                std::span<double> products);

/// error = g * scale - (x * slope + offset).
void norm_error(Bytes g, Bytes x, Floats scale, Floats slope, Floats offset,
                std::span<float> error);
void norm_error(Floats g, Floats x, Floats scale, Floats slope, Floats offset,
                std::span<float> error);

/// Returns the largest magnitude that norm_error() would write; infinite or NaN if one of them is.
float largest_norm_error(Bytes g, Bytes x, Floats scale, Floats slope, Floats offset);

// The activations of the EvoNorms; model/evonorm_kernels.hpp has the symbols and the source.

/// The activation of an EvoNorm for a sample: u = x * h(v * x) with x = q * unit.
struct Activation {
  Sigmoid sigmoid;
  float unit;
  Floats v;
};

/// y = u * scale + shift. @pre output is Output::plain or Output::added
void gated(Bytes q, const Activation& activation, Floats scale, Floats shift, Output output,
           std::span<float> out);
void gated(Floats q, const Activation& activation, Floats scale, Floats shift, Output output,
           std::span<float> out);

/// products = sum of g * u, slopes = sum of g * x^2 * h'(v * x) for each channel, in float32 for 64
/// pixels at a time.
void gated_sums(Bytes g, Bytes q, const Activation& activation, std::span<double> products,
                std::span<double> slopes);
void gated_sums(Floats g, Floats q, const Activation& activation, std::span<double> products,
                std::span<double> slopes);
/// error = g * scale * (h + z * h') - (q * slope + offset), z = v * x.
void gated_error(Bytes g, Bytes q, const Activation& activation, Floats scale, Floats slope,
                 Floats offset, std::span<float> error);
void gated_error(Floats g, Floats q, const Activation& activation, Floats scale, Floats slope,
                 Floats offset, std::span<float> error);

}  // namespace eqt::model::precision
