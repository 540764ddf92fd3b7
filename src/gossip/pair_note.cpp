// SPDX-License-Identifier: Apache-2.0
#include "gossip/pair_note.hpp"

#include <algorithm>

#include "codec/bytes.hpp"
#include "core/error.hpp"

namespace eqt::gossip {
namespace {

using codec::load;
using codec::store;

constexpr std::uint32_t kMagic = 0x50545145;  // "EQTP"
constexpr std::uint8_t kVersion = 1;
constexpr std::size_t kVersionAt = 4, kKindAt = 5, kZeroAt = 6, kRanksAt = 8, kZerosAt = 12,
                      kExchangeAt = 16, kStepsAt = 24;
constexpr std::size_t kStepBytes = 8;

// More than any run has, because a damaged number must not end an epoch.
constexpr StepId kMaxSteps = StepId{1} << 50;

void expect(const char* what, std::uint64_t expected, std::uint64_t found) {
  if (expected != found)
    fail(Kind::wire, "note of a pair: expected {} {}, found {}", what, expected, found);
}

}  // namespace

std::size_t note_bytes(std::size_t ranks) { return kStepsAt + kStepBytes * ranks; }

void write_note(NoteKind kind, std::uint64_t exchange, std::span<const StepId> steps,
                std::span<std::byte> bytes) {
  EQT_CHECK(bytes.size() == note_bytes(steps.size()), "{} bytes for {} ranks", bytes.size(),
            steps.size());
  std::ranges::fill(bytes, std::byte{0});
  store(&bytes[0], kMagic);
  store(&bytes[kVersionAt], kVersion);
  store(&bytes[kKindAt], static_cast<std::uint8_t>(kind));
  store(&bytes[kRanksAt], static_cast<std::uint32_t>(steps.size()));
  store(&bytes[kExchangeAt], exchange);
  for (std::size_t r = 0; r < steps.size(); ++r) {
    store(&bytes[kStepsAt + kStepBytes * r], std::uint64_t{steps[r]});
  }
}

void read_note(std::span<const std::byte> bytes, std::size_t ranks, PairNote& note) {
  expect("bytes", note_bytes(ranks), bytes.size());
  expect("magic number", kMagic, load<std::uint32_t>(&bytes[0]));
  expect("version", kVersion, load<std::uint8_t>(&bytes[kVersionAt]));
  expect("zero bytes, in them", 0, load<std::uint16_t>(&bytes[kZeroAt]));
  expect("zero bytes, in them", 0, load<std::uint32_t>(&bytes[kZerosAt]));
  expect("ranks", ranks, load<std::uint32_t>(&bytes[kRanksAt]));
  const auto kind = load<std::uint8_t>(&bytes[kKindAt]);
  if (kind < static_cast<std::uint8_t>(NoteKind::ask) ||
      kind > static_cast<std::uint8_t>(NoteKind::leave))
    fail(Kind::wire, "note of a pair: expected kind 1, 2 or 3, found {}", kind);
  note.kind = static_cast<NoteKind>(kind);
  note.exchange = load<std::uint64_t>(&bytes[kExchangeAt]);
  note.steps.resize(ranks);
  for (std::size_t r = 0; r < ranks; ++r) {
    note.steps[r] = load<std::uint64_t>(&bytes[kStepsAt + kStepBytes * r]);
    if (note.steps[r] > kMaxSteps)
      fail(Kind::wire, "note of a pair: expected at most {} steps of rank {}, found {}", kMaxSteps,
           r, note.steps[r]);
  }
}

}  // namespace eqt::gossip
