// SPDX-License-Identifier: Apache-2.0
// Notes of ranks, how they travel, and the state that a trainer and its communication thread share.

#include "sync/own_pace.hpp"

#include <algorithm>
#include <chrono>

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

// Messages of buckets use the channels above.
constexpr comm::Route kNotes = {.channel = 0, .priority = 0};

// The interval at which a rank polls for notes: much shorter than a step, much longer than polling
// takes.
constexpr std::chrono::microseconds kBriefWait{300};

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

void NoteLink::connect(Rank peer, std::size_t note_bytes, const char* operation) {
  operation_ = operation;
  in_.resize(note_bytes);
  out_.resize(note_bytes);
  incoming_ = {peer, in_};
  outgoing_ = {peer, out_};
}

void NoteLink::send(comm::Communicator& comm) {
  sending_ = {
      .outgoing = {&outgoing_, 1}, .incoming = {}, .route = kNotes, .operation = operation_};
  comm.transfers().start(sending_);
}

void NoteLink::wait_sent(comm::Communicator& comm) { comm.transfers().wait(sending_); }

void NoteLink::receive(comm::Communicator& comm, bool at_any_time) {
  receiving_ = {.outgoing = {},
                .incoming = {&incoming_, 1},
                .route = kNotes,
                .operation = operation_,
                .at_any_time = at_any_time};
  comm.transfers().start(receiving_);
}

void NoteLink::wait_received(comm::Communicator& comm) { comm.transfers().wait(receiving_); }

std::span<const std::byte> NoteLink::note_in() const {
  return std::span<const std::byte>(in_).first(incoming_.bytes);
}

void SharedProgress::close() {
  const std::lock_guard lock(mutex_);
  closed_ = true;
  changed_.notify_all();
}

bool SharedProgress::closed() const {
  const std::lock_guard lock(mutex_);
  return closed_;
}

void SharedProgress::wait_briefly() {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, kBriefWait, [this] { return failed_; });
}

void SharedProgress::fail() {
  const std::lock_guard lock(mutex_);
  failed_ = true;
  changed_.notify_all();
}

bool SharedProgress::failed() const {
  const std::lock_guard lock(mutex_);
  return failed_;
}

}  // namespace eqt::sync
