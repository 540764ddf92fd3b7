// SPDX-License-Identifier: Apache-2.0
#include "sync/gossip/pair_note.hpp"

#include <utility>

#include "core/error.hpp"
#include "sync/rank_note.hpp"

namespace eqt::sync {
namespace {

constexpr RankNoteFormat kFormat = {.magic = 0x50545145,  // "EQTP"
                                    .kinds = static_cast<std::uint8_t>(NoteKind::leave),
                                    .name = "note of a pair",
                                    .expected_kinds = "kind 1, 2 or 3"};

}  // namespace

std::size_t note_bytes(std::size_t ranks) { return rank_note_bytes(ranks); }

void write_note(NoteKind kind, std::uint64_t exchange, std::span<const StepId> steps,
                std::span<std::byte> bytes) {
  write_rank_note(kFormat, static_cast<std::uint8_t>(kind), exchange, steps, bytes);
}

void read_note(std::span<const std::byte> bytes, std::size_t ranks, PairNote& note) {
  RankNote read{.of_ranks = std::move(note.steps)};
  read_rank_note(kFormat, bytes, ranks, read);
  note.kind = static_cast<NoteKind>(read.kind);
  note.exchange = read.number;
  note.steps = std::move(read.of_ranks);
  for (std::size_t r = 0; r < ranks; ++r)
    if (note.steps[r] > kMostInRankNote)
      fail(Kind::wire, "note of a pair: expected at most {} steps of rank {}, found {}",
           kMostInRankNote, r, note.steps[r]);
}

}  // namespace eqt::sync
