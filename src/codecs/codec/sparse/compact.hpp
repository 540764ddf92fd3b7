// SPDX-License-Identifier: Apache-2.0
// Collects the large values of a buffer, with their indices, in one pass over memory.

#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace eqt::codec {

/// Elements beyond the last one kept that compact_at_least() may overwrite.
inline constexpr std::size_t kCompactSlack = 64;

/// The bits of |value|. As integers they have the order of the magnitudes, with NaN above infinity.
inline std::uint32_t magnitude_bits(float value) noexcept {
  std::uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  return bits & 0x7FFFFFFF;
}

struct Compacted {
  std::size_t count = 0;      // values kept
  std::uint32_t largest = 0;  // magnitude bits over all values, kept or not
};

/// Writes index and value of each value whose magnitude bits are at least `bound`, ascending.
/// @pre indices and kept have room for all values and kCompactSlack more; values.size() < 2^32
Compacted compact_at_least(std::span<const float> values, std::uint32_t bound,
                           std::uint32_t* indices, float* kept);

/// Moves the values whose magnitude bits are at least `bound`, and their indices, to the front, in
/// order.
/// @return their number
/// @pre as many indices as values
std::size_t keep_at_least(std::span<float> values, std::span<std::uint32_t> indices,
                          std::uint32_t bound);

}  // namespace eqt::codec
