// SPDX-License-Identifier: Apache-2.0
// Whole blocks of fixed coding (fixed_coding.hpp has their layout): packing, unpacking, and
// adding decoded values to sums. Compiled once per instruction set and chosen at run time.

#pragma once

#include <cstddef>
#include <span>

#include "codec/levels/fixed_coding.hpp"
#include "codec/levels/with_width.hpp"

namespace eqt::codec {

inline constexpr std::size_t kMaxBlockValues = 512;

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
