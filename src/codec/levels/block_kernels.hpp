// SPDX-License-Identifier: Apache-2.0
// Whole blocks of fixed coding (fixed_coding.hpp has their layout): packing, unpacking, and
// adding decoded values to sums. Compiled once per instruction set and chosen at run time.

#pragma once

#include <cstddef>
#include <span>
#include <type_traits>

#include "codec/levels/fixed_coding.hpp"

namespace eqt::codec {

inline constexpr std::size_t kMaxBlockValues = 512;

/// Calls visit(std::integral_constant<int, bits>).
template <typename Visit>
void with_width(int bits, const Visit& visit) {
  switch (bits) {
    case 2:
      return visit(std::integral_constant<int, 2>());
    case 3:
      return visit(std::integral_constant<int, 3>());
    case 4:
      return visit(std::integral_constant<int, 4>());
    case 5:
      return visit(std::integral_constant<int, 5>());
    case 6:
      return visit(std::integral_constant<int, 6>());
    case 7:
      return visit(std::integral_constant<int, 7>());
    default:
      return visit(std::integral_constant<int, 8>());
  }
}

/// @pre codes.size() is a multiple of block_values(bits); packed.size() == fixed_bytes of it
void pack_blocks(std::span<const LevelCode> codes, int bits, std::span<std::byte> packed);

/// add_fixed() for whole blocks.
void add_blocks(std::span<const PackedBucket> buckets, int bits, std::span<float> sum);

/// sum[i] += value[codes[i]], where value[kSignCode + index] is -value[index].
/// @param bits of a code: indices are below 2^(bits-1)
/// @pre codes.size() == sum.size()
void add_codes(std::span<const LevelCode> codes, int bits, const float (&value)[256],
               std::span<float> sum);

}  // namespace eqt::codec
