// SPDX-License-Identifier: Apache-2.0
// Notes to and from another rank, on a channel of their own.

#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "comm/communicator.hpp"
#include "comm/transfers.hpp"

namespace eqt::sync {

/// One note under way in each direction at most. While one is, the link must not be moved, and
/// must not be destroyed before Transfers::abandon().
class NoteLink {
 public:
  /// Before the first note.
  /// @param note_bytes of every note
  /// @param operation for error messages
  void connect(Rank peer, std::size_t note_bytes, const char* operation);

  Rank peer() const noexcept { return incoming_.from; }
  /// Returns what the next send() sends. @pre wait_sent() has returned since the last one
  std::span<std::byte> note_out() noexcept { return out_; }
  void send(comm::Communicator& comm);
  void wait_sent(comm::Communicator& comm);
  /// @param at_any_time see comm::Exchange
  void receive(comm::Communicator& comm, bool at_any_time);
  void wait_received(comm::Communicator& comm);
  bool has_received() const { return receiving_.done(); }
  std::span<const std::byte> note_in() const;
  bool is_under_way() const { return !receiving_.done() || !sending_.done(); }

 private:
  const char* operation_ = "";
  std::vector<std::byte> in_, out_;
  comm::Incoming incoming_{};
  comm::Outgoing outgoing_{};
  comm::Exchange receiving_{}, sending_{};
};

}  // namespace eqt::sync
