// SPDX-License-Identifier: Apache-2.0
// The arithmetic of the 16-bit casts, below the compressors fp16 and bf16.

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace eqt::codec {

// Bit patterns of infinity without the sign: larger ones are NaN.
inline constexpr std::uint32_t kHalfInfinity = 0x7C00;
inline constexpr std::uint32_t kBfloatInfinity = 0x7F80;

/// Rounds to IEEE 754 binary16, to nearest and ties to even. Values that are too large become
/// infinity; NaN stays NaN. Writes 2 values.size() bytes, little-endian.
/// @return the largest result without its sign, as bits
std::uint32_t cast_to_half(std::span<const float> values, std::byte* halves);

/// Rounds to bfloat16, the upper 16 bits of a float32, as cast_to_half() rounds to binary16.
std::uint32_t cast_to_bfloat(std::span<const float> values, std::byte* bfloats);

/// sum[i] += scale * half i. Meaningful only if the result is below kHalfInfinity.
/// @return the largest half without its sign, as bits
std::uint32_t add_halves(const std::byte* halves, float scale, std::span<float> sum);

/// Adds bfloat16 numbers like add_halves(), with kBfloatInfinity as the bound.
std::uint32_t add_bfloats(const std::byte* bfloats, float scale, std::span<float> sum);

}  // namespace eqt::codec
