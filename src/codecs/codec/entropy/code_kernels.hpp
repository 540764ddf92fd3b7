// SPDX-License-Identifier: Apache-2.0
// Statistics of level codes for entropy coding: how often each index occurs, and the signs of the
// nonzero codes as packed bits.

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "codec/levels/level_table.hpp"

namespace eqt::codec {

/// Number of codes of each level index, with either sign.
using IndexCounts = std::array<std::uint64_t, kMaxLevels>;

/// Adds the number of bytes of each value.
void count_bytes(std::span<const std::uint8_t> bytes, std::array<std::uint32_t, 256>& counts);

/// @pre every index is below `symbols` <= 128
IndexCounts count_indices(std::span<const LevelCode> codes, std::size_t symbols);

/// Bytes that pack_signs() may write for `count` codes: one bit each, and a word more.
constexpr std::size_t sign_room(std::size_t count) noexcept { return count / 8 + 16; }

/// Writes the sign bit of each nonzero code, in order: bit k of the row is bit k % 8 of byte k / 8,
/// bit 0 the least significant. The rest of the last byte is zero.
/// @pre row.size() >= sign_room(codes.size())
/// @return bits written
std::size_t pack_signs(std::span<const LevelCode> codes, std::span<std::byte> row);

/// Sets the sign bits of nonzero codes from such a row. @pre no code has a sign yet
/// @pre row.size() >= sign_room(codes.size())
/// @return bits used: the number of nonzero codes
std::size_t apply_signs(std::span<const std::byte> row, std::span<LevelCode> codes);

/// Bit k % 64 of flags[k / 64] says whether code k has an index above 0; bits beyond the last code
/// are zero.
/// @pre flags has a word for each 64 codes begun
void nonzero_flags(std::span<const LevelCode> codes, std::span<std::uint64_t> flags);

/// Number of codes with an index above 0.
std::size_t count_nonzeros(std::span<const LevelCode> codes);

/// Sum of the lengths of the Elias omega words of all gaps: a gap is a nonzero code's position
/// minus the previous one's, the first counted from -1 [bits].
std::uint64_t gap_bits(std::span<const LevelCode> codes);

}  // namespace eqt::codec
