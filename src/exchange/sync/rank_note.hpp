// SPDX-License-Identifier: Apache-2.0
// Short messages between ranks without common steps: what the sender says, and a number of every
// rank.
//
// Little-endian. Bytes 0-3 magic, 4 version 1, 5 kind, 6-7 zero, 8-11 ranks n, 12-15 zero, 16-23 a
// number, then n times 8 bytes: a number of each rank. 24 + 8n bytes.

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace eqt::sync {

struct RankNoteFormat {
  std::uint32_t magic;
  std::uint8_t kinds;          // from 1 to this
  const char* name;            // for messages: "note of a pair"
  const char* expected_kinds;  // likewise: "kind 1, 2 or 3"
};

struct RankNote {
  std::uint8_t kind = 1;
  std::uint64_t number = 0;
  std::vector<std::uint64_t> of_ranks = {};
};

/// More than any count of a run, because a damaged number must not end an epoch.
inline constexpr std::uint64_t kMostInRankNote = std::uint64_t{1} << 50;

std::size_t rank_note_bytes(std::size_t ranks);
/// @pre bytes.size() == rank_note_bytes(of_ranks.size())
void write_rank_note(const RankNoteFormat& format, std::uint8_t kind, std::uint64_t number,
                     std::span<const std::uint64_t> of_ranks, std::span<std::byte> bytes);
/// Does not judge the numbers.
/// @throws Error{wire} on anything but a note of this format and `ranks` ranks
void read_rank_note(const RankNoteFormat& format, std::span<const std::byte> bytes,
                    std::size_t ranks, RankNote& note);

}  // namespace eqt::sync
