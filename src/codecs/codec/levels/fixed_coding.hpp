// SPDX-License-Identifier: Apache-2.0
// Container W0: `bits` bits per code, sign above index, in blocks that vector registers pack and
// unpack without crossing lanes.
//
// A block has 16 columns: value i of the block is in column i mod 16, row i / 16. Each column packs
// its codes, first row lowest, into 32-bit little-endian words; the block's first 16 words are the
// columns' first ones, and so on. Widths that divide 32 take 32 / bits rows (one word a column),
// others 32 rows (`bits` words). The values after the whole blocks are a plain stream: code i in
// bits i * bits ..., lowest first.
//
// Source   the vertical layout: D. Lemire and L. Boytsov, Software: Practice and Experience 45,
//          2015; with columns independent of the register width

#pragma once

#include <cstddef>
#include <span>

#include "codec/levels/level_table.hpp"

namespace eqt::codec {

/// Values of a block.
constexpr std::size_t block_values(int bits) noexcept {
  return 16 * (32 % bits == 0 ? 32 / static_cast<std::size_t>(bits) : 32);
}

/// Bytes of `count` codes of `bits` bits.
constexpr std::size_t fixed_bytes(std::size_t count, int bits) noexcept {
  return (count * static_cast<std::size_t>(bits) + 7) / 8;
}

/// Packs sign << (bits - 1) | index.
/// @pre packed.size() == fixed_bytes(codes.size(), bits); indices fit; codes.size() is a multiple
/// of block_values(bits) unless these are the bucket's last
void pack_fixed(std::span<const LevelCode> codes, int bits, std::span<std::byte> packed);

/// One packed bucket and its values: the code sign << (bits - 1) | index decodes to value[code].
/// The half with the sign bit is the other half negated.
struct PackedBucket {
  const std::byte* packed;
  const float* value;  // 2^bits of them
};

/// sum[i] = (sum[i] + value of code i of the first bucket) + ... in the order of the buckets, in
/// one pass over `sum`.
/// @pre every bucket has fixed_bytes(sum.size(), bits) bytes
void add_fixed(std::span<const PackedBucket> buckets, int bits, std::span<float> sum);

}  // namespace eqt::codec
