// The passes over values that decide speed, compiled once per instruction set and chosen at run
// time. All of them compute the same bits on every instruction set: products and sums in fp32 or
// fp64 in one stated order, never fused.

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "codec/level_table.hpp"
#include "core/random.hpp"

namespace eqt::codec {

/// Sum of squares in fp64: 16 partial sums, value i into sum i mod 16 in order; then s_k += s_(k+w)
/// for w = 8, 4, 2, 1. Not finite exactly if a value is not.
double sum_of_squares(std::span<const float> values);

/// The largest |v| as the bits of a float; above 0x7F7FFFFF exactly if a value is not finite.
std::uint32_t largest_magnitude_bits(std::span<const float> values);

/// Stochastic rounding of r = |v| * inverse (fp32) between levels: codes[i] for values[i], with the
/// 24 random bits u = stream.bits(first_index + i) >> 8. Index j + 1 if u < (r - l_j) * slope_j,
/// else the lower index j. Uniform tables: `inverse` is n / norm, j = min(floor(r), n - 1), and the
/// test is u < (r - j) * 2^24.
/// @pre first_index + values.size() <= 2^32; codes.size() == values.size()
void quantize(std::span<const float> values, float inverse, const LevelTable& table,
              const RandomStream& stream, std::uint32_t first_index, std::span<LevelCode> codes);

/// Codes of indices below 8 to nibbles sign << 3 | index; the first of two in the low nibble. An
/// odd last one has a zero partner.
/// @pre nibbles.size() == (codes.size() + 1) / 2
void pack_nibbles(std::span<const LevelCode> codes, std::span<std::byte> nibbles);

/// sum[i] += value of nibble i, where nibble sign << 3 | index means (-1)^sign * magnitude[index].
/// @pre nibbles.size() == (sum.size() + 1) / 2
void add_nibbles(std::span<const std::byte> nibbles, const float (&magnitude)[8],
                 std::span<float> sum);

/// sum[i] += value[codes[i]].
/// @pre codes.size() == sum.size()
void add_codes(std::span<const LevelCode> codes, const float (&value)[256], std::span<float> sum);

}  // namespace eqt::codec
