// SPDX-License-Identifier: Apache-2.0
#include "train/quorum_note.hpp"

#include <algorithm>

#include "codec/bytes.hpp"
#include "core/error.hpp"

namespace eqt::train {
namespace {

using codec::load;
using codec::store;

constexpr std::uint32_t kMagic = 0x51545145;  // "EQTQ"
constexpr std::uint8_t kVersion = 1;
constexpr std::size_t kVersionAt = 4, kKindAt = 5, kZeroAt = 6, kRanksAt = 8, kZerosAt = 12,
                      kRoundAt = 16, kCountsAt = 24;
constexpr std::size_t kCountBytes = 8;

// More than any run has, because a damaged number must not end an epoch.
constexpr std::uint64_t kMost = std::uint64_t{1} << 50;

void expect(const char* what, std::uint64_t expected, std::uint64_t found) {
  if (expected != found)
    fail(Kind::wire, "note of a quorum: expected {} {}, found {}", what, expected, found);
}

void expect_at_most(const char* what, std::uint64_t found) {
  if (found > kMost)
    fail(Kind::wire, "note of a quorum: expected {} of at most {}, found {}", what, kMost, found);
}

}  // namespace

std::size_t quorum_note_bytes(std::size_t ranks) { return kCountsAt + kCountBytes * ranks; }

void write_quorum_note(const QuorumNote& note, std::span<std::byte> bytes) {
  EQT_CHECK(bytes.size() == quorum_note_bytes(note.counts.size()), "{} bytes for {} ranks",
            bytes.size(), note.counts.size());
  std::ranges::fill(bytes, std::byte{0});
  store(&bytes[0], kMagic);
  store(&bytes[kVersionAt], kVersion);
  store(&bytes[kKindAt], static_cast<std::uint8_t>(note.kind));
  store(&bytes[kRanksAt], static_cast<std::uint32_t>(note.counts.size()));
  store(&bytes[kRoundAt], note.round);
  for (std::size_t r = 0; r < note.counts.size(); ++r)
    store(&bytes[kCountsAt + kCountBytes * r], note.counts[r]);
}

void read_quorum_note(std::span<const std::byte> bytes, std::size_t ranks, QuorumNote& note) {
  expect("bytes", quorum_note_bytes(ranks), bytes.size());
  expect("magic number", kMagic, load<std::uint32_t>(&bytes[0]));
  expect("version", kVersion, load<std::uint8_t>(&bytes[kVersionAt]));
  expect("zero bytes, in them", 0, load<std::uint16_t>(&bytes[kZeroAt]));
  expect("zero bytes, in them", 0, load<std::uint32_t>(&bytes[kZerosAt]));
  expect("ranks", ranks, load<std::uint32_t>(&bytes[kRanksAt]));
  const auto kind = load<std::uint8_t>(&bytes[kKindAt]);
  if (kind < static_cast<std::uint8_t>(QuorumNoteKind::ready) ||
      kind > static_cast<std::uint8_t>(QuorumNoteKind::alive))
    fail(Kind::wire, "note of a quorum: expected a kind from 1 to 5, found {}", kind);
  note.kind = static_cast<QuorumNoteKind>(kind);
  note.round = load<std::uint64_t>(&bytes[kRoundAt]);
  expect_at_most("a round", note.round);
  note.counts.resize(ranks);
  for (std::size_t r = 0; r < ranks; ++r) {
    note.counts[r] = load<std::uint64_t>(&bytes[kCountsAt + kCountBytes * r]);
    expect_at_most("a count", note.counts[r]);
  }
  if (note.kind == QuorumNoteKind::close &&
      std::ranges::count(note.counts, 0u) == std::ssize(note.counts))
    fail(Kind::wire, "note of a quorum: expected members of round {}, found none", note.round);
}

}  // namespace eqt::train
