// SPDX-License-Identifier: Apache-2.0
// The notes by which ranks agree on the rounds of a quorum: rank 0 leads, the others tell it when
// they are ready.
//
// A note of ranks (rank_note.hpp) with magic "EQTQ": the number of the round, and steps that
// count, by rank. 24 + 8n bytes.

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/layout.hpp"

namespace eqt::sync {

enum class QuorumNoteKind : std::uint8_t {
  ready = 1,  // to rank 0: the sender's difference may go into a round, with the sender's count
  close = 2,  // of rank 0: this round is of the ranks whose count is not 0
  leave = 3,  // to rank 0: the sender sends no more in this epoch
  end = 4,    // of rank 0: no round follows in this epoch
  alive = 5,  // either way: the sender's communication thread runs
};

struct QuorumNote {
  QuorumNoteKind kind = QuorumNoteKind::alive;
  std::uint64_t round = 0;  // close: from 1
  std::vector<std::uint64_t> counts = {};
};

std::size_t quorum_note_bytes(std::size_t ranks);
/// @pre bytes.size() == quorum_note_bytes(note.counts.size())
void write_quorum_note(const QuorumNote& note, std::span<std::byte> bytes);
/// @throws Error{wire} on anything but a note of `ranks` ranks
void read_quorum_note(std::span<const std::byte> bytes, std::size_t ranks, QuorumNote& note);

}  // namespace eqt::sync
