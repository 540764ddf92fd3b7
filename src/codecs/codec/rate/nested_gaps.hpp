// SPDX-License-Identifier: Apache-2.0
// Indices that are mostly 0, as nested sets: those of at least 1, among them those of at least 2,
// and so on. Where few values are not 0, this takes fewer bits than rANS, whose states are long.
//
// Source   Golomb-Rice coded gaps of each set (sparse/gap_coding.hpp); unary indices
// Symbols  n codes; set j >= 1 holds the codes of index at least j, as positions within set j - 1;
//          set 0 is all of them
// Payload  sets 1, 2, ... up to the largest index or to an empty one; of each
//          set: its size m, 7 bits a byte, lowest first, the upper bit set if another byte follows;
//          for m > 0 one byte: the Rice parameter, and the upper bit set if the positions are those
//          of the codes that are not in the set; then remainders and quotients of gaps. At the
//          end the signs of set 1, bit k in bit k mod 8 of byte k / 8, 1 for negative
// Size     within 4 % of the entropy of independent indices, and 20 bits a set

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "codec/levels/level_table.hpp"

namespace eqt::codec {

/// Upper bound of write_nested_gaps()'s result [bytes].
std::size_t nested_gaps_max_bytes(std::size_t count, std::uint32_t largest) noexcept;

/// Writes the sets.
/// @param largest of the indices
/// @return bytes written
/// @pre to has room for nested_gaps_max_bytes(codes.size(), largest)
std::size_t write_nested_gaps(std::span<const LevelCode> codes, std::uint32_t largest,
                              std::span<std::byte> to);

/// Reads codes.size() codes of indices up to `largest`.
/// @return bytes read
/// @throws Error{wire}
std::size_t read_nested_gaps(std::span<const std::byte> from, std::uint32_t largest,
                             std::span<LevelCode> codes);

}  // namespace eqt::codec
