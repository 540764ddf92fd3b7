// SPDX-License-Identifier: Apache-2.0
#include "sync/rank_note.hpp"

#include <algorithm>

#include "codec/bytes.hpp"
#include "core/error.hpp"

namespace eqt::sync {
namespace {

using codec::load;
using codec::store;

constexpr std::uint8_t kVersion = 1;
constexpr std::size_t kVersionAt = 4, kKindAt = 5, kZeroAt = 6, kRanksAt = 8, kZerosAt = 12,
                      kNumberAt = 16, kOfRanksAt = 24;
constexpr std::size_t kNumberBytes = 8;

}  // namespace

std::size_t rank_note_bytes(std::size_t ranks) { return kOfRanksAt + kNumberBytes * ranks; }

void write_rank_note(const RankNoteFormat& format, std::uint8_t kind, std::uint64_t number,
                     std::span<const std::uint64_t> of_ranks, std::span<std::byte> bytes) {
  EQT_CHECK(bytes.size() == rank_note_bytes(of_ranks.size()), "{} bytes for {} ranks", bytes.size(),
            of_ranks.size());
  std::ranges::fill(bytes, std::byte{0});
  store(&bytes[0], format.magic);
  store(&bytes[kVersionAt], kVersion);
  store(&bytes[kKindAt], kind);
  store(&bytes[kRanksAt], static_cast<std::uint32_t>(of_ranks.size()));
  store(&bytes[kNumberAt], number);
  for (std::size_t r = 0; r < of_ranks.size(); ++r)
    store(&bytes[kOfRanksAt + kNumberBytes * r], of_ranks[r]);
}

void read_rank_note(const RankNoteFormat& format, std::span<const std::byte> bytes,
                    std::size_t ranks, RankNote& note) {
  const auto expect = [&](const char* what, std::uint64_t expected, std::uint64_t found) {
    if (expected != found)
      fail(Kind::wire, "{}: expected {} {}, found {}", format.name, what, expected, found);
  };
  expect("bytes", rank_note_bytes(ranks), bytes.size());
  expect("magic number", format.magic, load<std::uint32_t>(&bytes[0]));
  expect("version", kVersion, load<std::uint8_t>(&bytes[kVersionAt]));
  expect("zero bytes, in them", 0, load<std::uint16_t>(&bytes[kZeroAt]));
  expect("zero bytes, in them", 0, load<std::uint32_t>(&bytes[kZerosAt]));
  expect("ranks", ranks, load<std::uint32_t>(&bytes[kRanksAt]));
  note.kind = load<std::uint8_t>(&bytes[kKindAt]);
  if (note.kind < 1 || note.kind > format.kinds)
    fail(Kind::wire, "{}: expected {}, found {}", format.name, format.expected_kinds, note.kind);
  note.number = load<std::uint64_t>(&bytes[kNumberAt]);
  note.of_ranks.resize(ranks);
  for (std::size_t r = 0; r < ranks; ++r)
    note.of_ranks[r] = load<std::uint64_t>(&bytes[kOfRanksAt + kNumberBytes * r]);
}

}  // namespace eqt::sync
