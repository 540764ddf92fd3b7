// SPDX-License-Identifier: Apache-2.0
// What a rank's messages on their way look like to MPI. Private to the room.

#pragma once

#include <mpi.h>

#include <atomic>
#include <deque>
#include <vector>

#include "comm/damage.hpp"
#include "comm/mpi_call.hpp"
#include "comm/transfers.hpp"

namespace eqt::comm {

/// The part of a message that MPI has not taken yet.
struct Stream {
  Exchange* exchange = nullptr;
  std::size_t index = 0;        // in the exchange's outgoing or incoming
  std::size_t moved = 0;        // bytes that MPI has taken or brought
  std::uint32_t in_flight = 0;  // fragments in MPI's hands
  bool last_taken = false;      // no further fragment follows
  std::uint64_t checksum = 0;   // of the bytes moved so far
  std::uint64_t theirs = 0;     // as received
};

/// A fragment in MPI's hands.
struct Fragment {
  std::uint32_t stream = 0;  // in the table of streams
  bool sending = false;
  bool is_checksum = false;
};

struct Transfers::State {
  MPI_Comm comm;
  Watchdog* watchdog;
  int rank, size;
  ByteCount count;
  std::vector<std::uint64_t> sent_to;  // point-to-point bytes, by receiver
  std::atomic<bool> cancelled{false};
  PollBackoff backoff;
  std::deque<Stream> streams;  // some unused; MPI holds pointers into them
  std::vector<std::uint32_t> unused;
  struct Peer {
    FragmentRule rule;
    bool within_host = false;
    int in_flight = 0;                  // fragments on their way to this peer
    std::vector<std::uint32_t> queued;  // streams that MPI has not taken whole, most urgent first
  };
  std::vector<Peer> peers;
  std::vector<MPI_Request> requests;  // beside `fragments`
  std::vector<Fragment> fragments;
  std::vector<int> finished;
  std::vector<MPI_Status> statuses;
  std::vector<Exchange*> open;  // in the order of their start
  std::vector<std::coroutine_handle<>> ready;
  std::size_t next_ready = 0;
  SendHook* hook = nullptr;
  std::deque<std::vector<std::byte>> replaced;  // what it gave, which MPI may still read

  State(MPI_Comm of, Watchdog& dog, int my_rank, int ranks);
  void add_stream();
  Peer& peer(Rank r) { return peers[static_cast<std::size_t>(r)]; }

  std::uint32_t take_stream(Exchange& exchange, std::size_t index);
  void start(Exchange& exchange);

  /// Behind all that is as urgent.
  void queue(Peer& to, std::uint32_t stream);

  /// A message that went astray fits no checksum.
  static std::uint64_t first_seed(const Exchange& exchange, Rank sender);
  int tag(const Exchange& exchange) const;
  void send_fragments(Peer& to);

  /// Takes the checksum of `bytes` while they are on their way through the caches anyway.
  void send_fragment(std::uint32_t at, std::span<const std::byte> bytes);

  /// It needs no place among the fragments in flight: it is as short as their headers.
  void send_checksum(std::uint32_t at);
  void send(std::uint32_t at, std::span<const std::byte> bytes, bool is_checksum);
  void receive_fragment(std::uint32_t at);
  void receive(std::uint32_t at, std::span<std::byte> buffer, bool is_checksum);
  void add_request(const Fragment& fragment);
  bool progress();

  /// Says which of the `n` finished requests failed and why.
  [[noreturn]] void fail_finished(int n);
  std::size_t buffer_size(const Fragment& fragment) const;
  MessageOrigin origin(const Stream& stream) const;
  void sent(const Fragment& fragment);
  void received(const Fragment& fragment, const MPI_Status& status);

  /// A message's bytes are there, and so is its checksum.
  void close(std::uint32_t at, std::size_t checksum_bytes);
  void end(std::uint32_t at);
  void finish(Exchange& exchange);
  void remove_finished();

  /// The deadline starts anew whenever something moves.
  void arm();
  bool awaits_this_host() const;
  int silent_peer(const Exchange& exchange) const;
  void abandon() noexcept;
};

}  // namespace eqt::comm
