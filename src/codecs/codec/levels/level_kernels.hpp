// SPDX-License-Identifier: Apache-2.0
// The passes over values that determine a quantizer's speed, compiled once per instruction set and
// chosen at run time. The bits are the same on every instruction set: fp32 or fp64 operations in a
// stated order, never fused unless the product is exact.

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "codec/levels/level_table.hpp"
#include "core/random.hpp"

namespace eqt::codec {

inline constexpr std::size_t kSquareSums = 32;

/// Sum of squares in fp64: 32 partial sums, value i into sum i mod 32 in order; then s_k += s_(k+w)
/// for w = 16, 8, 4, 2, 1. Not finite exactly if a value is not.
double sum_of_squares(std::span<const float> values);

/// The largest |v| as the bits of a float; above 0x7F7FFFFF exactly if a value is not finite.
std::uint32_t largest_magnitude_bits(std::span<const float> values);

/// Four values 16 apart share a random word: value i of a bucket takes
/// product(first_word + 16 (i / 64) + i mod 16) times the multiplier of row (i / 16) mod 4, all
/// modulo 2^32. The multipliers are powers of one number, chosen so that each pair of the four
/// words fills the unit square as evenly as 2^32 points can (the shortest vectors of the lattices
/// {(h, c^k h)}, k = 1, 2, 3, are within 6 % of the longest possible ones).
inline constexpr std::uint32_t kRowFactor = 0x45108B7Du;
inline constexpr std::array<std::uint32_t, 4> kRowMultiplier = {
    1, kRowFactor, kRowFactor* kRowFactor, kRowFactor* kRowFactor* kRowFactor};

/// Stochastic rounding between levels: codes[i] for values[i] of one bucket. With b = table.bits,
/// r = |v| * inverse and f = offset_j + slope_j * r for its cell j (both fp32; uniform tables:
/// `inverse` is n / norm and f = r), and the random word h,
///   index = (trunc(f * 2^(32-b)) + (h >> b)) >> (32 - b).
/// Powers of two, with R = 2^n r: bits(R + max(R, 2)) * 2^(9-b) modulo 2^32 replaces trunc().
/// @pre f <= n for every value; codes.size() == values.size()
void quantize(std::span<const float> values, float inverse, const LevelTable& table,
              const RandomStream& stream, std::uint32_t first_word, std::span<LevelCode> codes);

/// quantize() and pack_fixed() of whole blocks in one pass.
/// @pre table.bits is 2, 4 or 8; values.size() is a multiple of block_values(table.bits);
/// packed.size() == fixed_bytes(values.size(), table.bits)
void quantize_and_pack(std::span<const float> values, float inverse, const LevelTable& table,
                       const RandomStream& stream, std::uint32_t first_word,
                       std::span<std::byte> packed);

}  // namespace eqt::codec
