// SPDX-License-Identifier: Apache-2.0
// Non-blocking messages: many exchanges at once, in both directions.

#pragma once

#include <coroutine>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "comm/link_delay.hpp"
#include "core/layout.hpp"

namespace eqt::comm {

class HostMemory;
class Watchdog;

/// A message to one peer.
struct Outgoing {
  Rank to = 0;
  std::span<const std::byte> bytes;
};

/// A buffer for a message from one peer.
struct Incoming {
  Rank from = 0;
  std::span<std::byte> buffer;
  std::size_t bytes = 0;  // received, set when the exchange is done
};

/// Bytes that this rank has given to MPI and received from it, without the headers of MPI and TCP,
/// and of the messages that memory shared with other ranks replaces.
/// Point-to-point messages are counted exactly, with their checksums. What MPI's own collectives
/// send cannot be seen from outside and is counted by a formula whose sum over ranks is right: an
/// allreduce as a ring, a broadcast of b bytes as (n-1) b sent by its root, an allgather of b bytes
/// per rank as (n-1) b sent by each.
struct ByteCount {
  std::uint64_t sent_bytes = 0;
  std::uint64_t received_bytes = 0;
  std::uint64_t messages = 0;  // fragments sent
  // The part of sent_bytes that went point-to-point to ranks of the same host, over no network.
  std::uint64_t sent_on_host_bytes = 0;
  std::uint64_t sent_checksum_bytes = 0;      // of sent_bytes
  std::uint64_t received_checksum_bytes = 0;  // of received_bytes
  std::uint64_t estimated_bytes = 0;          // of sent_bytes: by formula
};

/// Says where a message belongs and how urgent it is.
struct Route {
  std::uint32_t channel = 0;   // below kChannels; messages of different channels never mix
  std::uint32_t priority = 0;  // the smallest is sent first when several messages wait for one peer
};

/// The length of fragments to a peer, and how many MPI holds at a time.
struct FragmentRule {
  std::size_t fragment_bytes = 0;  // 0: never cut
  int in_flight = 1;               // fragments at a time
};

/// Messages to and from some peers that are sent and received together. The owner keeps this
/// object, the buffers and both lists in place until done().
struct Exchange {
  std::span<const Outgoing> outgoing;
  std::span<Incoming> incoming;
  Route route;
  const char* operation = "";        // a string literal, named when the deadline passes
  bool at_any_time = false;          // the peer may send at any time: no deadline
  std::coroutine_handle<> waiter{};  // if set, handed out by Transfers::take_ready() when done
  std::size_t open = 0;              // messages not complete; set by Transfers
  bool done() const { return open == 0; }
  bool is_over_at_once() const { return outgoing.empty() && incoming.empty(); }
};

/// A wait until all other ranks have done so many steps. The owner keeps it in place until then.
struct HostWait {
  const HostMemory* memory = nullptr;
  std::uint64_t steps = 0;
  const char* operation = "";  // a string literal, named when the deadline passes
  std::coroutine_handle<> waiter{};
  bool is_over_at_once() const noexcept;
};

/// Lets tests damage messages. The thread that sends calls it.
class SendHook {
 public:
  /// As a receiver, this means an operation of MPI that sends to all ranks at once.
  static constexpr Rank kAllRanks = -1;

  virtual ~SendHook() = default;
  /// False: a message that is not empty is not sent, but this rank continues as if it were.
  virtual bool sends(Rank to) = 0;
  /// Sees each fragment of a message after its checksum was taken.
  /// @return the bytes to send instead, not longer, and of equal length for kAllRanks; empty: send
  /// the fragment unchanged
  virtual std::optional<std::vector<std::byte>> replacement(std::span<const std::byte> fragment,
                                                            Rank to) = 0;
};

/// All messages between two ranks but link probes and stop notes. One thread at a time.
///
/// Every message is followed by a checksum of its bytes, sender and channel. A message that does
/// not match its checksum or does not fit into its buffer is Error{wire}, which names sender,
/// operation and step. No exchange is done() before all its messages were checked.
///
/// Large messages are cut into fragments, of which MPI holds only a few at a time.
/// This keeps both directions busy and lets an urgent message overtake the rest of a long one. A
/// message ends with the first fragment that is shorter than the rule's length; it may be empty.
///
/// While there is an unfinished exchange that is not marked at_any_time, the deadline counts from
/// the last moment at which something moved.
class Transfers {
 public:
  static constexpr std::uint32_t kChannels = 32000;

  /// @param comm an MPI_Comm* that the communicator owns
  Transfers(void* comm, Watchdog& watchdog, int rank, int size);
  ~Transfers();
  Transfers(const Transfers&) = delete;
  Transfers& operator=(const Transfers&) = delete;

  /// Replaces the constructor's watchdog. @pre no exchange is unfinished
  void set_watchdog(Watchdog& watchdog);
  /// Both ends of a pair must have the same rule. Bytes to a peer within the host are counted
  /// separately, and a wait for such a peer polls more often.
  void set_fragment_rule(Rank peer, FragmentRule rule, bool within_host);

  /// Sets a hook, for tests only. Keeps the pointer; null (the default): messages stay as they are.
  void set_send_hook(SendHook* hook) noexcept;

  /// For experiments: from now on a message that arrives counts as received only after its time of
  /// `delay`. Other messages continue meanwhile. A message that is there before start() of its
  /// exchange counts as arrived then, so a receiver that comes late waits longer than behind a real
  /// link. Empty (the default): no message is held.
  void set_link_delay(const std::optional<LinkDelay>& delay);

  /// Returns true if a hook or a delay is set.
  bool changes_messages() const noexcept;

  /// Starts sending and receiving.
  /// @pre no unfinished exchange of the same channel has a peer in common with this one
  void start(Exchange& exchange);
  /// Tests all requests once; true if anything moved. @throws Error{wire}, as all waits do
  bool progress();
  /// The next task whose exchange is done, or null.
  std::coroutine_handle<> take_ready();
  /// Waits, with growing pauses, until `exchange` is done. Other exchanges continue meanwhile.
  void wait(const Exchange& exchange);
  /// One progress(), then a pause if nothing moved; pauses grow.
  void progress_or_pause();
  /// The next pause is a short one again.
  void reset_backoff() noexcept;

  /// Suspends the task until a wait is over: an Exchange or a HostWait.
  template <typename Wait>
  class [[nodiscard]] Suspension {
   public:
    Suspension(Transfers& transfers, const Wait& wait) : transfers_(transfers), wait_(wait) {}
    Suspension(const Suspension&) = delete;
    Suspension& operator=(const Suspension&) = delete;
    bool await_ready() const noexcept { return wait_.is_over_at_once(); }
    void await_suspend(std::coroutine_handle<> task) {
      wait_.waiter = task;
      transfers_.start(wait_);
    }
    void await_resume() const noexcept {}

   private:
    Transfers& transfers_;
    Wait wait_;
  };
  using Awaiter = Suspension<Exchange>;
  /// co_await transfers.exchange(...) resumes when all messages have arrived and all buffers are
  /// free. The lists must stay in place until then.
  Awaiter exchange(std::span<const Outgoing> outgoing, std::span<Incoming> incoming, Route route,
                   const char* operation) {
    return Awaiter(*this, Exchange{outgoing, incoming, route, operation});
  }

  /// co_await transfers.others_did(...) resumes when all other ranks have done so many steps.
  Suspension<HostWait> others_did(const HostMemory& memory, std::uint64_t steps,
                                  const char* operation) {
    return {*this, HostWait{&memory, steps, operation}};
  }
  /// Hands out the waiter when the wait is over.
  void start(const HostWait& wait);

  const ByteCount& byte_count() const noexcept;
  /// The point-to-point part of byte_count().sent_bytes, by receiver.
  std::span<const std::uint64_t> sent_bytes_by_peer() const noexcept;
  /// Adds the bytes of MPI's own collectives, computed by formula.
  void count(std::uint64_t sent_bytes, std::uint64_t received_bytes, std::uint64_t messages);
  /// Adds values that this rank and a rank of this host read from each other's memory, as the two
  /// messages with checksums that they replace: a run's bytes do not depend on where its ranks are.
  /// 0 bytes: no message.
  void count_on_host(Rank peer, std::uint64_t sent_bytes, std::uint64_t received_bytes);
  /// Adds messages that the communicator sends and receives outside of exchanges.
  void count_note(std::uint64_t sent_bytes, std::uint64_t received_bytes);
  /// The hook's replacement for the bytes of one of MPI's own collectives; empty: unchanged.
  std::optional<std::vector<std::byte>> replacement_for_mpi(std::span<const std::byte> bytes);
  /// Gives up all unfinished exchanges, so that their buffers may be freed. Only after an error.
  void abandon() noexcept;
  /// Makes current and later waits throw. Callable from any thread.
  void cancel() noexcept;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace eqt::comm
