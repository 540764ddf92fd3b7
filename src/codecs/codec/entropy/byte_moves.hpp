// SPDX-License-Identifier: Apache-2.0
// How eight bytes move by a mask of eight bits, for vectors of 128 bits.

#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace eqt::codec {

/// One row for each mask, one byte for each of eight lanes.
using LaneMoves = std::array<std::array<std::uint8_t, 8>, 256>;

/// Row m: the lanes of m, in order; other places are 0.
constexpr LaneMoves packed_lanes(bool to_end) {
  LaneMoves moves{};
  for (std::size_t mask = 0; mask < 256; ++mask) {
    std::size_t place = to_end ? 8 - static_cast<std::size_t>(std::popcount(mask)) : 0;
    for (std::uint8_t lane = 0; lane < 8; ++lane)
      if ((mask >> lane & 1) != 0) moves[mask][place++] = lane;
  }
  return moves;
}

/// Row m: for lane j of m, the bit 1 << k, where k lanes of m are below j; 0 for other lanes.
constexpr LaneMoves ranked_lanes() {
  LaneMoves moves{};
  for (std::size_t mask = 0; mask < 256; ++mask) {
    std::uint32_t bit = 1;
    for (std::size_t lane = 0; lane < 8; ++lane) {
      if ((mask >> lane & 1) == 0) continue;
      moves[mask][lane] = static_cast<std::uint8_t>(bit);
      bit <<= 1;
    }
  }
  return moves;
}

constexpr std::array<std::uint8_t, 256> bit_counts() {
  std::array<std::uint8_t, 256> counts{};
  for (std::size_t bits = 0; bits < 256; ++bits)
    counts[bits] = static_cast<std::uint8_t>(std::popcount(bits));
  return counts;
}

alignas(64) inline constexpr LaneMoves kPackedToFront = packed_lanes(false);
alignas(64) inline constexpr LaneMoves kPackedToEnd = packed_lanes(true);
alignas(64) inline constexpr LaneMoves kRankBits = ranked_lanes();
/// A load costs less than counting does where the instruction is one of vectors.
alignas(64) inline constexpr std::array<std::uint8_t, 256> kBitCount = bit_counts();

}  // namespace eqt::codec
