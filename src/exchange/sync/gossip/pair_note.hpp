// SPDX-License-Identifier: Apache-2.0
// The note that is sent with a pair's models: which rank asks, and the steps of all ranks.
//
// A note of ranks (rank_note.hpp) with magic "EQTP": the number of the exchange, and completed
// steps by rank, as far as the sender knows. 24 + 8n bytes.

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/layout.hpp"

namespace eqt::sync {

enum class NoteKind : std::uint8_t {
  ask = 1,     // the sender's model follows; the receiver answers
  answer = 2,  // the answer's model follows
  leave = 3,   // the sender asks no more in this epoch
};

struct PairNote {
  NoteKind kind = NoteKind::ask;
  std::uint64_t exchange = 0;  // number of earlier exchanges of this pair
  std::vector<StepId> steps = {};
};

std::size_t note_bytes(std::size_t ranks);
/// @pre bytes.size() == note_bytes(steps.size())
void write_note(NoteKind kind, std::uint64_t exchange, std::span<const StepId> steps,
                std::span<std::byte> bytes);
/// @throws Error{wire} on anything but a note of `ranks` ranks
void read_note(std::span<const std::byte> bytes, std::size_t ranks, PairNote& note);

}  // namespace eqt::sync
