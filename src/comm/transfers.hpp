// SPDX-License-Identifier: Apache-2.0
// Messages on their way: many exchanges at once, in both directions, without blocking.

#pragma once

#include <coroutine>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "core/layout.hpp"

namespace eqt::comm {

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

/// Bytes that this rank handed to MPI and took from it so far, without the headers that MPI and TCP
/// add. Point-to-point messages count exactly, with their checksums. What MPI's own collectives
/// send is not to be seen from outside and counts by formula, right as the sum over ranks: an
/// allreduce as a ring, a broadcast of b bytes as (n-1) b sent by its root, an allgather of b bytes
/// a rank as (n-1) b sent by each.
struct ByteCount {
  std::uint64_t sent_bytes = 0;
  std::uint64_t received_bytes = 0;
  std::uint64_t messages = 0;  // fragments sent
  // Of sent_bytes: point-to-point to ranks of the same host, which no network carries.
  std::uint64_t sent_on_host_bytes = 0;
  std::uint64_t sent_checksum_bytes = 0;      // of sent_bytes
  std::uint64_t received_checksum_bytes = 0;  // of received_bytes
  std::uint64_t estimated_bytes = 0;          // of sent_bytes: by formula
};

/// Where a message belongs and how urgent it is.
struct Route {
  std::uint32_t channel = 0;   // below kChannels; messages of different channels never mix
  std::uint32_t priority = 0;  // what is sent first when several messages wait for one peer: least
};

/// How messages to one peer are cut and how many fragments MPI holds at a time.
struct FragmentRule {
  std::size_t fragment_bytes = 0;  // 0: never cut
  int in_flight = 1;               // fragments at a time
};

/// Messages to some peers and from some, under way together. The owner keeps it, the buffers and
/// both lists in place until done().
struct Exchange {
  std::span<const Outgoing> outgoing;
  std::span<Incoming> incoming;
  Route route;
  const char* operation = "";        // a string literal, named when the deadline passes
  bool at_any_time = false;          // nobody was asked for it: it has no deadline
  std::coroutine_handle<> waiter{};  // if set, handed out by Transfers::take_ready() when done
  std::size_t open = 0;              // messages not complete; set by Transfers
  bool done() const { return open == 0; }
};

/// For tests that damage what travels. Called by the thread that sends.
class SendHook {
 public:
  /// Bytes that MPI moves by itself, to all ranks at once.
  static constexpr Rank kAllRanks = -1;

  virtual ~SendHook() = default;
  /// Whether a message with bytes goes out at all. If not, this rank goes on as if it had.
  virtual bool sends(Rank to) = 0;
  /// Sees each fragment of a message after its checksum was taken.
  /// @return what to send in its place, not longer, and as long where it goes to kAllRanks;
  /// nothing: the fragment as it is
  virtual std::optional<std::vector<std::byte>> replacement(std::span<const std::byte> fragment,
                                                            Rank to) = 0;
};

/// All point-to-point traffic of a rank. One thread at a time.
///
/// Every message is followed by a checksum of its bytes, sender and channel. A message that does
/// not fit its checksum or its buffer is Error{wire}, which names sender, operation and step; no
/// exchange is done() before all its messages fit.
///
/// Large messages between hosts are cut into fragments, of which few are in MPI's hands at a time:
/// both directions stay busy, and an urgent message overtakes the rest of a long one. A message
/// ends with the first fragment that is shorter than the rule's, if only by being empty.
///
/// The deadline counts from the moment at which something last moved, while an exchange is under
/// way that is not marked at_any_time.
class Transfers {
 public:
  static constexpr std::uint32_t kChannels = 32000;

  /// What the communicator lends: `comm` is an MPI_Comm*.
  Transfers(void* comm, Watchdog& watchdog, int rank, int size);
  ~Transfers();
  Transfers(const Transfers&) = delete;
  Transfers& operator=(const Transfers&) = delete;

  /// Takes the place of the constructor's; nothing may be under way.
  void set_watchdog(Watchdog& watchdog);
  /// The same rule must hold at both ends of a pair. Bytes to a peer within the host are counted
  /// apart, and waiting for it is eager.
  void set_fragment_rule(Rank peer, FragmentRule rule, bool within_host);

  /// For tests only. Keeps the pointer; null, as from the start: nothing is damaged.
  void set_send_hook(SendHook* hook) noexcept;

  /// Starts sending and receiving.
  /// @pre no exchange of the same channel is under way with one of the same peers
  void start(Exchange& exchange);
  /// Looks once; true if anything moved. @throws Error{wire}, as all that waits
  bool progress();
  /// The next task whose exchange is done, or null.
  std::coroutine_handle<> take_ready();
  /// Patiently until `exchange` is done. Others may end meanwhile.
  void wait(const Exchange& exchange);
  /// One patient look: progress(), or a pause that grows while nothing moves.
  void progress_or_pause();
  /// The next pause is a short one again.
  void reset_backoff() noexcept;

  /// What co_await on(...) needs: pauses the task until the exchange is done.
  class [[nodiscard]] Awaiter {
   public:
    Awaiter(Transfers& transfers, const Exchange& exchange)
        : transfers_(transfers), exchange_(exchange) {}
    Awaiter(const Awaiter&) = delete;
    Awaiter& operator=(const Awaiter&) = delete;
    bool await_ready() const noexcept {
      return exchange_.outgoing.empty() && exchange_.incoming.empty();
    }
    void await_suspend(std::coroutine_handle<> task) {
      exchange_.waiter = task;
      transfers_.start(exchange_);
    }
    void await_resume() const noexcept {}

   private:
    Transfers& transfers_;
    Exchange exchange_;
  };
  /// co_await transfers.exchange(...): goes on when all has arrived and all buffers are free. The
  /// lists must stay in place until then.
  Awaiter exchange(std::span<const Outgoing> outgoing, std::span<Incoming> incoming, Route route,
                   const char* operation) {
    return Awaiter(*this, Exchange{outgoing, incoming, route, operation});
  }

  const ByteCount& byte_count() const noexcept;
  /// Of byte_count().sent_bytes: point-to-point, by receiver.
  std::span<const std::uint64_t> sent_bytes_by_peer() const noexcept;
  /// For traffic that MPI moved by itself, by formula.
  void count(std::uint64_t sent_bytes, std::uint64_t received_bytes, std::uint64_t messages);
  /// For messages that its owner sends and receives outside of exchanges.
  void count_note(std::uint64_t sent_bytes, std::uint64_t received_bytes);
  /// What the hook sends in place of bytes that MPI moves by itself; nothing: the bytes as they
  /// are.
  std::optional<std::vector<std::byte>> replacement_for_mpi(std::span<const std::byte> bytes);
  /// Gives up what is under way, so that its buffers may go. For the way out after an error only.
  void abandon() noexcept;
  /// Makes present and later waits throw. Callable from any thread.
  void cancel() noexcept;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace eqt::comm
