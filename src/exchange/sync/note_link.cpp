// SPDX-License-Identifier: Apache-2.0
#include "sync/note_link.hpp"

namespace eqt::sync {
namespace {

// Messages of buckets use the channels above.
constexpr comm::Route kNotes = {.channel = 0, .priority = 0};

}  // namespace

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

}  // namespace eqt::sync
