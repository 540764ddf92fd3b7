// SPDX-License-Identifier: Apache-2.0
// The MPI requests of a rank's open messages. Private to the room.

#pragma once

#include <mpi.h>

#include <atomic>
#include <chrono>
#include <deque>
#include <map>
#include <memory>
#include <vector>

#include "comm/damage.hpp"
#include "comm/mpi_call.hpp"
#include "comm/transfers.hpp"

namespace eqt::comm {

/// A message that is being sent or received in fragments.
struct Stream {
  Exchange* exchange = nullptr;
  std::size_t index = 0;        // in the exchange's outgoing or incoming
  std::size_t moved = 0;        // bytes given to MPI or received from it
  std::uint32_t in_flight = 0;  // fragments that MPI holds
  bool last_taken = false;      // no further fragment follows
  std::uint64_t checksum = 0;   // of the bytes so far
  std::uint64_t theirs = 0;     // as received
};

/// A fragment that MPI holds.
struct Fragment {
  std::uint32_t stream = 0;  // in the table of streams
  bool sending = false;
  bool is_checksum = false;
};

/// A message that is complete but must not count as received yet.
struct Held {
  std::uint32_t stream = 0;  // in the table of streams
  std::chrono::steady_clock::time_point until;
};

struct Transfers::State {
  MPI_Comm comm;
  Watchdog* watchdog;
  int rank, size;
  ByteCount count;
  std::vector<std::uint64_t> sent_to;  // point-to-point bytes, by receiver
  std::atomic<bool> cancelled{false};
  PollBackoff backoff;
  std::deque<Stream> streams;  // some unused; MPI has pointers into them
  /// Receives the checksum that ends a message of a stream. It is as long as a fragment, because
  /// one may come in its place, from a damaged message: Open MPI 4.1 does not cut a long message
  /// that it reads from another process's memory (CMA), but writes past the end of a shorter
  /// buffer. Otherwise only the first bytes are written, and the rest takes no memory.
  struct LastFragment {
    std::unique_ptr<std::byte[]> buffer;
    std::size_t bytes = 0;
  };
  std::deque<LastFragment> last_fragments;
  std::vector<std::uint32_t> unused;
  struct Peer {
    FragmentRule rule;
    bool within_host = false;
    int in_flight = 0;                  // fragments that MPI is sending to this peer
    std::vector<std::uint32_t> queued;  // streams with fragments left to send, most urgent first
  };
  std::vector<Peer> peers;
  std::vector<MPI_Request> requests;  // one per element of `fragments`
  std::vector<Fragment> fragments;
  std::vector<int> finished;
  std::vector<MPI_Status> statuses;
  std::vector<Exchange*> open;              // in the order of their start
  std::vector<const HostWait*> host_waits;  // in the order of their start
  std::vector<std::coroutine_handle<>> ready;
  std::size_t next_ready = 0;
  SendHook* hook = nullptr;
  std::optional<LinkDelay> delay;
  std::vector<Held> held;
  std::map<std::pair<std::uint32_t, Rank>, std::uint64_t> arrived;  // messages, by channel, sender
  std::deque<std::vector<std::byte>> replaced;  // by the hook; MPI may still read them

  State(MPI_Comm of, Watchdog& dog, int my_rank, int ranks);
  void add_stream();
  /// The first `bytes` of last_fragments[stream], which has at least as many afterwards.
  std::span<std::byte> last_fragment(std::uint32_t stream, std::size_t bytes);
  /// Makes room for them at the start, so that no late step has to allocate.
  void expect_fragments(std::size_t bytes);
  Peer& peer(Rank r) { return peers[static_cast<std::size_t>(r)]; }

  std::uint32_t take_stream(Exchange& exchange, std::size_t index);
  void start(Exchange& exchange);

  /// Adds the stream behind those of the same urgency.
  void queue(Peer& to, std::uint32_t stream);

  /// Includes sender and channel, so that a misdirected message does not match its checksum.
  static std::uint64_t first_seed(const Exchange& exchange, Rank sender);
  int tag(const Exchange& exchange) const;
  void send_fragments(Peer& to);

  /// Also updates the checksum, since `bytes` pass through the caches now anyway.
  void send_fragment(std::uint32_t at, std::span<const std::byte> bytes);

  /// Does not count as a fragment in flight: it is as short as a fragment's headers.
  void send_checksum(std::uint32_t at);
  void send(std::uint32_t at, std::span<const std::byte> bytes, bool is_checksum);
  void receive_fragment(std::uint32_t at);
  void receive_checksum(std::uint32_t at);
  void receive(std::uint32_t at, std::span<std::byte> buffer, bool is_checksum);
  void add_request(const Fragment& fragment);
  bool progress();
  const char* oldest_operation(const char* otherwise) const;

  void start(const HostWait& wait);
  /// Ends the waits that are over; true if there are any.
  bool end_host_waits();

  /// Says which of the `n` finished requests failed and why.
  [[noreturn]] void fail_finished(int n);
  std::size_t buffer_size(const Fragment& fragment) const;
  MessageOrigin origin(const Stream& stream) const;
  void sent(const Fragment& fragment);
  void received(const Fragment& fragment, const MPI_Status& status);

  /// Called when a message and its checksum have arrived; compares them.
  void close(std::uint32_t at, std::size_t checksum_bytes);
  void end(std::uint32_t at);

  /// Keeps a message that has arrived until its time of `delay`.
  void hold(std::uint32_t at);
  /// Ends those whose time has come; true if there are any.
  bool release_held();
  void finish(Exchange& exchange);
  void remove_finished();

  /// Restarts the deadline. Called whenever something has moved.
  void arm();
  bool awaits_this_host() const;
  int silent_peer(const Exchange& exchange) const;
  void abandon() noexcept;
};

}  // namespace eqt::comm
