// SPDX-License-Identifier: Apache-2.0
// TernGrad's passes over values, compiled once per instruction set and chosen at run time; the same
// bits on each of them.

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace eqt::codec {

inline constexpr std::size_t kCodesPerWord = 16;  // 2-bit codes in 32 bits
inline constexpr std::size_t kMomentSums =
    8;  // fixed, so that every vector width adds in one order

/// Sums over values of (g - g_0) and (g - g_0)^2, by index modulo kMomentSums, and the largest
/// |g|.
struct TernaryMoments {
  double sum[kMomentSums] = {};
  double squares[kMomentSums] = {};
  std::int32_t largest = 0;  // bits of a non-negative float
};

/// The parameters that turn a value into a code.
struct TernaryRounding {
  float limit;                  // clips |g|
  float scale;                  // S
  std::uint32_t first, second;  // stream constants; see RandomStream
};

/// Adds all values; g_0 is the first of them.
/// @pre values is not empty
void add_moments(std::span<const float> values, TernaryMoments& moments);

/// Writes the codes of values.size() / 16 whole words, 4 bytes each. `index` is the low half of the
/// first value's counter.
/// @pre the counters do not cross a multiple of 2^32
void pack_words(std::span<const float> values, std::uint32_t index, TernaryRounding rounding,
                std::byte* to);

/// codes[i] = -1, 0 or 1 for values[i], drawn as pack_words() draws.
/// @pre the counters do not cross a multiple of 2^32; codes.size() == values.size()
void draw_ternary(std::span<const float> values, std::uint32_t index, TernaryRounding rounding,
                  std::span<std::int8_t> codes);

/// sum[i] += +amount, -amount or zero for sum.size() / 16 whole words of codes.
/// @return bits that are set where a code is 11
std::uint32_t add_words(const std::byte* from, float amount, float zero, std::span<float> sum);

}  // namespace eqt::codec
