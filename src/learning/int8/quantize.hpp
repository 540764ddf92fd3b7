// SPDX-License-Identifier: Apache-2.0
// Floats as 8-bit integers: x = scale * (q - zero point), with one scale for all values of a call:
// that of the largest magnitude, so that nothing is clipped, or of a range that is given, which
// values beyond it are cut to.
//
// A scale is at least 2^-126, so that its inverse is finite; where all values are 0 it is 1. Every
// q is computed from x * (1 / scale), with one rounding for each operation, so it is the same on
// every processor.
//
// Source   Aketi, Kodge, Roy, "Low precision decentralized distributed training over IID and
//          non-IID data", 2022; a scale per sample: Chen et al., "A statistical framework for
//          low-bitwidth training of deep neural networks", 2020
// Error    |x - scale * (q - zero point)| <= scale / 2 to nearest, < scale stochastic, up to the
//          rounding of floats
// Throws   Error{diverged} if a value is NaN or infinite; the sentence begins with `what`

#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "core/random.hpp"

namespace eqt::int8 {

/// Returns the largest magnitude of all values. The functions below take it as their range if none
/// is given.
float largest_magnitude(std::span<const float> x, std::string_view what = "values");

/// The zero point of quantize_unsigned(): all 8 bits are for values >= 0.
inline constexpr int kUnsignedZeroPoint = -128;

/// The zero point of quantize_shifted(): 16 of the values are for x < 0.
inline constexpr int kShiftedZeroPoint = -112;

/// The largest magnitude of quantize_wide().
inline constexpr int kWide = 8191;

/// Values >= 0, as a ReLU leaves them: q in [-128, 127] to nearest, ties to even.
/// @pre q has the size of x. @return scale = max / 255
float quantize_unsigned(std::span<const float> x, std::span<std::int8_t> q,
                        std::string_view what = "activations");

/// q in [-127, 127] to nearest, ties to even; zero point 0.
/// @return scale = max |x| / 127
float quantize_signed(std::span<const float> x, std::span<std::int8_t> q,
                      std::string_view what = "activations");

/// q = floor(x / scale + r) in [-127, 127]; zero point 0. r is in (0, 1) and has 16 random bits of
/// RandomStream(key, block): the values i and i + 16 of each 32 share a word. 0 becomes 0. Without
/// bias up to 2^-17 of a scale.
/// @param block  tells apart the streams of a key, e.g. by sample
/// @return scale = max |x| / 127
float quantize_stochastic(std::span<const float> x, std::span<std::int8_t> q, const RandomKey& key,
                          std::uint32_t block = 0, std::string_view what = "errors");

/// q in [-8191, 8191] to nearest, ties to even; zero point 0.
/// @return scale = max |x| / 8191
float quantize_wide(std::span<const float> x, std::span<std::int16_t> q,
                    std::string_view what = "errors");

// These quantize finite values by a range that is known.
// @return the scale, range / 255, / 127 or / 8191
float quantize_unsigned(float range, std::span<const float> x, std::span<std::int8_t> q);
/// Values from -0.17 on, as GELU leaves them: q in [-128, 127] to nearest, ties to even. The scale
/// is range / 239, or 0.17 / 16 if that is larger.
float quantize_shifted(float range, std::span<const float> x, std::span<std::int8_t> q);
float quantize_signed(float range, std::span<const float> x, std::span<std::int8_t> q);
/// @param first  x are the values of a stream from this one on, a multiple of 32
float quantize_stochastic(float range, std::span<const float> x, std::span<std::int8_t> q,
                          const RandomKey& key, std::uint32_t block = 0, std::size_t first = 0);
float quantize_wide(float range, std::span<const float> x, std::span<std::int16_t> q);

// These quantize by a scale that one of the functions above returned, to the same q.
void quantize_unsigned_again(float scale, std::span<const float> x, std::span<std::int8_t> q);
void quantize_shifted_again(float scale, std::span<const float> x, std::span<std::int8_t> q);
void quantize_signed_again(float scale, std::span<const float> x, std::span<std::int8_t> q);

/// q = 128 * high + low, with high in [-64, 64] and low in [-64, 63]: sums of products with q are
/// two of 8 bits. @pre |q| <= kWide
void split_wide(std::span<const std::int16_t> q, std::span<std::int8_t> high,
                std::span<std::int8_t> low);
/// An 8-bit value of `high` counts this much.
inline constexpr float kHighDigit = 128;

/// x = scale * (q - zero_point).
void dequantize(std::span<const std::int8_t> q, int zero_point, float scale, std::span<float> x);

/// sums = the exact sum of each channel's values. @param q  (pixels, channels)
void channel_sums(std::span<const std::int8_t> q, std::span<std::int64_t> sums);

}  // namespace eqt::int8
