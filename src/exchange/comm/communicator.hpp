// SPDX-License-Identifier: Apache-2.0
// All ranks of the job: checked MPI calls with deadlines, byte counts, and waits that leave the
// core to others.

#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "comm/host_memory.hpp"
#include "comm/session.hpp"
#include "comm/transfers.hpp"
#include "core/error.hpp"
#include "core/layout.hpp"

namespace eqt::comm {

/// A duplicate of MPI_COMM_WORLD. Every call is collective unless said otherwise. One thread at a
/// time.
///
/// A wait polls with MPI_Test and sleeps longer and longer in between, so that a waiting rank
/// leaves its core to the ranks that compute.
class Communicator {
 public:
  /// @param timeout_seconds deadline of each operation; 0 = none
  /// @param pretended_hosts for tests: a number per rank, the same list on all ranks; ranks with
  ///         equal numbers count as being on one host; empty: the real hosts
  Communicator(const Session& session, double timeout_seconds,
               std::span<const int> pretended_hosts = {});
  ~Communicator();
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  Rank rank() const noexcept;
  int size() const noexcept;
  /// Ascending, including this rank.
  std::span<const Rank> ranks_on_this_host() const noexcept;
  bool shares_host(Rank peer) const noexcept;
  /// Hosts have numbers 0, 1, ... in the order of their lowest ranks, the same on every rank.
  int host_of(Rank rank) const noexcept;
  int host_count() const noexcept;
  ByteCount byte_count() const noexcept;
  /// The step that timeout messages name. Not collective.
  void set_step(StepId step) noexcept;
  /// Replaces the deadline of the constructor. Not collective.
  void set_timeout(double seconds);

  // The heartbeat of the thread that calls them, see Watchdog. Not collective.
  void heartbeat(const char* activity, bool waits_too = false) noexcept;
  void end_heartbeat() noexcept;

  /// True if this rank knows of a signal that asked any rank to stop. The first rank that gets such
  /// a signal sends a message to all others, which receive it when they call this function. Not
  /// collective. No other thread of this rank may call MPI at the same time.
  bool stop_asked();
  /// The last result of stop_asked(), or true if this rank itself got a signal. Callable from any
  /// thread.
  bool knows_of_stop() const noexcept;

  /// @throws Error{wire} on a rank where the bytes do not match their checksum
  void broadcast(std::span<std::byte> bytes, Rank root);
  /// The text of rank `root` on every rank, at most kMaxTextBytes.
  static constexpr std::size_t kMaxTextBytes = std::size_t{64} << 20;
  std::string broadcast(const std::string& text, Rank root);

  /// These reductions are done by MPI, so no checksum protects the sums. The one of floats is for
  /// gradients: one call of MPI_Allreduce, which keeps a core busy while it waits and which
  /// cancel() does not end. The others are for a few numbers and sleep while they wait.
  void allreduce_sum(std::span<float> values);
  void allreduce_sum(std::span<double> values);
  void allreduce_max(std::span<float> values);
  void allreduce_max(std::span<double> values);
  /// Starts an allreduce_max that continues during other work. `values` must stay in place and must
  /// not be used until finish_max(). One at a time.
  void start_max(std::span<double> values);
  void finish_max();
  /// @throws Error{wire} on a rank where a value does not match its checksum
  std::vector<std::uint64_t> allgather(std::uint64_t value);
  /// Every rank's text, by rank; lengths may differ.
  std::vector<std::string> allgather(const std::string& text);
  /// Every rank's list of numbers, or of structures of numbers without padding, by rank; lengths
  /// may differ, and a list has at most kMaxTextBytes.
  /// @throws Error{wire} if a list has a part of an element
  template <typename T>
  std::vector<std::vector<T>> allgather_lists(std::span<const T> list) {
    static_assert(std::is_trivially_copyable_v<T>);
    std::vector<std::vector<T>> lists;
    for (const std::string& bytes :
         allgather(std::string(reinterpret_cast<const char*>(list.data()), list.size_bytes()))) {
      if (bytes.size() % sizeof(T) != 0)
        fail(Kind::wire, "allgather of lists: expected elements of {} bytes, found {} bytes",
             sizeof(T), bytes.size());
      auto& theirs = lists.emplace_back(bytes.size() / sizeof(T));
      if (!theirs.empty()) std::memcpy(theirs.data(), bytes.data(), bytes.size());
    }
    return lists;
  }

  /// MPI_Barrier, blocking inside MPI: ranks leave it within microseconds. For measuring only.
  void blocking_barrier();

  /// Sends and receives at once; returns when all has arrived and all buffers are free. Each
  /// message may be shorter than its buffer.
  /// @param operation a string literal, named when the deadline passes
  void exchange(std::span<const Outgoing> outgoing, std::span<Incoming> incoming,
                const char* operation);

  /// Returns the transfers for exchanges that do not block. Not collective.
  Transfers& transfers() noexcept;

  /// Makes host_memory() of every rank's array where all ranks are on one host, share memory and
  /// send messages that nothing delays or damages; elsewhere, and where a rank shares none, there
  /// is none. Collective.
  /// @param own as long on every rank, in place as long as it is shared; null: nothing is shared
  void share_memory(FlatBuffer* own);
  /// Null unless share_memory() has made it: on every rank, or on none. Not collective.
  HostMemory* host_memory() noexcept;

  /// Sets a hook, for tests only. It sees this rank's messages, without their checksums. See
  /// Transfers.
  void set_send_hook(SendHook* hook) noexcept;

  /// If any rank has an error, all ranks throw the error of the lowest such rank as AgreedError.
  void agree(const std::optional<Error>& local);
  /// agree() on the Error that `work` throws, if it throws one.
  template <typename Work>
  void agree_after(Work&& work) {
    std::optional<Error> error;
    try {
      work();
    } catch (const Error& caught) {
      error.emplace(caught);
    }
    agree(error);
  }

  /// Throws Error{bug} on all ranks unless `value` is the same everywhere.
  void require_same(std::uint64_t value, std::string_view what);

  /// Makes current and later waits of this rank throw, so that a thread inside one can be joined.
  /// Only for shutting down after an error. Not collective, callable from any thread.
  void cancel() noexcept;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace eqt::comm
