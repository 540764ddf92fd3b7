// SPDX-License-Identifier: Apache-2.0
// The passes of the sign codecs, compiled once per instruction set and chosen at run time; the same
// bits on each of them.
//
// A bit plane has one bit per value, the first value in the lowest bit of the first byte: a set bit
// is a value below zero. Zero, of either sign, counts as positive.

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace eqt::codec {

/// Values that are packed and summed at a time, so that the second pass reads them from the
/// first-level cache; a multiple of 32.
inline constexpr std::size_t kSignBlock = 4096;

/// Bytes of a plane of `count` bits.
constexpr std::size_t plane_bytes(std::size_t count) { return count / 8 + (count % 8 != 0); }

/// Writes plane_bytes(values.size()) bytes; the bits after the last value are 0.
/// @return the largest |v| as the bits of a float: above 0x7F7FFFFF exactly if one is not finite
std::uint32_t pack_signs(std::span<const float> values, std::byte* plane);

/// Sums in fp64: value i is added to partial sum i mod 16, in order; the total is formed by
/// s_k += s_(k+w) for w = 8, 4, 2, 1.
struct PartialSums {
  double part[16] = {};
  double total() const;
};

/// sums += |v|.
/// @pre values.size() is a multiple of 16, or this is the last call
void add_magnitudes(std::span<const float> values, PartialSums& sums);

/// The two sides of zero.
struct SideSums {
  PartialSums negative, other;
  std::size_t negatives = 0;
};

/// sides += the values below zero and the others.
/// @pre values.size() is a multiple of 16, or this is the last call
void add_sides(std::span<const float> values, SideSums& sides);

/// sum[i] += bit first_bit + i of the plane ? if_set : if_clear. Reads no byte outside the plane.
/// @pre plane.size() >= plane_bytes(first_bit + sum.size())
void add_signs(std::span<const std::byte> plane, std::size_t first_bit, float if_set,
               float if_clear, std::span<float> sum);

/// mean[i] = mean[i] < -tie ? -1 : +1.
void take_majority(std::span<float> mean, float tie);

}  // namespace eqt::codec
