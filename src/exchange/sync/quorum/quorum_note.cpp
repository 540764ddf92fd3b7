// SPDX-License-Identifier: Apache-2.0
#include "sync/quorum/quorum_note.hpp"

#include <algorithm>
#include <utility>

#include "core/error.hpp"
#include "sync/rank_note.hpp"

namespace eqt::sync {
namespace {

constexpr RankNoteFormat kFormat = {.magic = 0x51545145,  // "EQTQ"
                                    .kinds = static_cast<std::uint8_t>(QuorumNoteKind::alive),
                                    .name = "note of a quorum",
                                    .expected_kinds = "a kind from 1 to 5"};

void expect_at_most(const char* what, std::uint64_t found) {
  if (found > kMostInRankNote)
    fail(Kind::wire, "note of a quorum: expected {} of at most {}, found {}", what, kMostInRankNote,
         found);
}

}  // namespace

std::size_t quorum_note_bytes(std::size_t ranks) { return rank_note_bytes(ranks); }

void write_quorum_note(const QuorumNote& note, std::span<std::byte> bytes) {
  write_rank_note(kFormat, static_cast<std::uint8_t>(note.kind), note.round, note.counts, bytes);
}

void read_quorum_note(std::span<const std::byte> bytes, std::size_t ranks, QuorumNote& note) {
  RankNote read{.of_ranks = std::move(note.counts)};
  read_rank_note(kFormat, bytes, ranks, read);
  note.kind = static_cast<QuorumNoteKind>(read.kind);
  note.round = read.number;
  note.counts = std::move(read.of_ranks);
  expect_at_most("a round", note.round);
  for (const std::uint64_t count : note.counts) expect_at_most("a count", count);
  if (note.kind == QuorumNoteKind::close &&
      std::ranges::count(note.counts, 0u) == std::ssize(note.counts))
    fail(Kind::wire, "note of a quorum: expected members of round {}, found none", note.round);
}

}  // namespace eqt::sync
