// SPDX-License-Identifier: Apache-2.0
#include "sync/gossip/asynchronous_gossip.hpp"

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "core/error.hpp"
#include "support/catch.hpp"

using namespace eqt;
using namespace eqt::sync;

namespace {

std::vector<std::byte> written(NoteKind kind, std::uint64_t exchange,
                               const std::vector<StepId>& steps) {
  std::vector<std::byte> bytes(note_bytes(steps.size()));
  write_note(kind, exchange, steps, bytes);
  return bytes;
}

bool refused(const std::vector<std::byte>& bytes, std::size_t ranks) {
  PairNote note;
  try {
    read_note(bytes, ranks, note);
  } catch (const Error& error) {
    return error.kind() == Kind::wire;
  }
  return false;
}

}  // namespace

TEST_CASE("notes are read as they were written", "[pairs]") {
  for (const NoteKind kind : {NoteKind::ask, NoteKind::answer, NoteKind::leave}) {
    for (const std::size_t ranks : {1u, 2u, 7u}) {
      std::vector<StepId> steps(ranks);
      for (std::size_t r = 0; r < ranks; ++r) steps[r] = r * 1'000'000'007;
      PairNote note;
      read_note(written(kind, 1ull << 40, steps), ranks, note);
      CHECK(note.kind == kind);
      CHECK(note.exchange == 1ull << 40);
      CHECK(note.steps == steps);
    }
  }
}

TEST_CASE("the bytes of a note are those of its description", "[pairs]") {
  const auto bytes = written(NoteKind::leave, 0x0102, {3, 4});
  REQUIRE(bytes.size() == 24 + 2 * 8);
  const std::vector<int> expected = {'E', 'Q', 'T', 'P', 1, 3, 0, 0, 2, 0, 0, 0, 0, 0,
                                     0,   0,   2,   1,   0, 0, 0, 0, 0, 0, 3, 0, 0, 0,
                                     0,   0,   0,   0,   4, 0, 0, 0, 0, 0, 0, 0};
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    INFO("byte " << i);
    CHECK(std::to_integer<int>(bytes[i]) == expected[i]);
  }
}

TEST_CASE("damaged notes are refused", "[pairs]") {
  const auto good = written(NoteKind::ask, 5, {10, 20, 30});
  REQUIRE(!refused(good, 3));
  CHECK(refused(good, 2));
  CHECK(refused(good, 4));
  CHECK(refused({}, 3));
  for (std::size_t length = 0; length < good.size(); ++length) {
    CHECK(refused({good.begin(), good.begin() + static_cast<std::ptrdiff_t>(length)}, 3));
  }
  auto longer = good;
  longer.push_back(std::byte{0});
  CHECK(refused(longer, 3));
  // Magic, version, kind, zeros, ranks; then the highest byte of a number of steps.
  for (std::size_t at = 0; at < 16; ++at) {
    auto bad = good;
    bad[at] ^= std::byte{0x40};
    INFO("byte " << at);
    CHECK(refused(bad, 3));
  }
  auto bad = good;
  bad[24 + 7] = std::byte{1};
  CHECK(refused(bad, 3));
}
