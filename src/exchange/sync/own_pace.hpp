// SPDX-License-Identifier: Apache-2.0
// Algorithms without a common step share these: notes between ranks, and a communication thread
// that exchanges from the first step of an epoch to its end.

#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>
#include <vector>

#include "comm/communicator.hpp"
#include "comm/transfers.hpp"
#include "comm/watchdog.hpp"
#include "core/layout.hpp"
#include "sync/background_thread.hpp"

namespace eqt::sync {

/// The format of a note: a short message that says something about the sender, and a number of
/// every rank.
///
/// Little-endian. Bytes 0-3 magic, 4 version 1, 5 kind, 6-7 zero, 8-11 ranks n, 12-15 zero, 16-23 a
/// number, then n times 8 bytes: a number of each rank. 24 + 8n bytes.
struct RankNoteFormat {
  std::uint32_t magic;
  std::uint8_t kinds;          // from 1 to this
  const char* name;            // for messages: "note of a pair"
  const char* expected_kinds;  // likewise: "kind 1, 2 or 3"
};

struct RankNote {
  std::uint8_t kind = 1;
  std::uint64_t number = 0;
  std::vector<std::uint64_t> of_ranks = {};
};

/// More than any count of a run, because a damaged number must not end an epoch.
inline constexpr std::uint64_t kMostInRankNote = std::uint64_t{1} << 50;

std::size_t rank_note_bytes(std::size_t ranks);
/// @pre bytes.size() == rank_note_bytes(of_ranks.size())
void write_rank_note(const RankNoteFormat& format, std::uint8_t kind, std::uint64_t number,
                     std::span<const std::uint64_t> of_ranks, std::span<std::byte> bytes);
/// Does not judge the numbers.
/// @throws Error{wire} on anything but a note of this format and `ranks` ranks
void read_rank_note(const RankNoteFormat& format, std::span<const std::byte> bytes,
                    std::size_t ranks, RankNote& note);

/// Notes to and from another rank, on a channel of their own. One note is under way in each
/// direction at most. While one is, the link must not be moved, and must not be destroyed before
/// Transfers::abandon().
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

/// A rank's trainer and its communication thread tell each other the steps taken: the base of their
/// shared state. It is thread-safe.
class SharedProgress {
 public:
  /// This rank's trainer has finished the epoch.
  void close();
  bool closed() const;
  /// The communication thread waits for a short time, or until something fails.
  void wait_briefly();
  /// One side has an error: the other does not wait any more.
  void fail();
  bool failed() const;

 protected:
  mutable std::mutex mutex_;  // guards the members of derived classes, too
  std::condition_variable changed_;
  bool closed_ = false, failed_ = false;
};

/// The communication thread, which runs exchange.run(). Watches this rank's own steps, too: waits
/// for others have the communicator's deadline.
template <typename Exchange>
class EpochThread {
 public:
  /// Keeps references. @param timeout_seconds of a step; 0 = none
  EpochThread(comm::Communicator& comm, SharedProgress& progress, Exchange& exchange,
              double timeout_seconds)
      : comm_(comm),
        progress_(progress),
        exchange_(exchange),
        watchdog_(timeout_seconds, comm.rank(), comm.size()),
        background_([this] { run(); }, [this] { give_up(); }) {}

  bool runs() const noexcept { return runs_; }
  void start() {
    background_.start();
    runs_ = true;
  }
  /// Ends the epoch: waits until no rank sends any more. Throws the thread's error.
  void finish() {
    watchdog_.disarm();
    progress_.close();
    background_.finish();
    runs_ = false;
  }
  /// Throws the thread's error, if there was one.
  void rethrow() {
    if (progress_.failed()) background_.finish();
  }

  /// From now on this step has its deadline.
  void watch(StepId step) {
    watchdog_.set_step(step);
    watchdog_.arm("a step between averages", comm_.rank());
  }
  /// While this rank waits for others.
  void stop_watching() { watchdog_.disarm(); }

 private:
  void run() {
    try {
      exchange_.run();
    } catch (...) {
      progress_.fail();
      throw;
    }
  }
  void give_up() {
    progress_.fail();
    comm_.cancel();
  }

  comm::Communicator& comm_;
  SharedProgress& progress_;
  Exchange& exchange_;
  comm::Watchdog watchdog_;
  bool runs_ = false;
  BackgroundThread background_;  // last: its thread uses all of the above
};

}  // namespace eqt::sync
