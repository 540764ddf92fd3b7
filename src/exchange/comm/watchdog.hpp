// SPDX-License-Identifier: Apache-2.0
// A deadline for all waiting: a rank that waits too long ends the job with a message.

#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

#include "comm/signals.hpp"
#include "core/error.hpp"

namespace eqt::comm {

/// The last activity that was reported to any watchdog of this process, for messages.
const char* last_activity() noexcept;

/// A thread that ends the process (exit code 7) in two cases: an armed operation takes longer than
/// its deadline, even if the waiting thread is stuck inside MPI; or the thread that created the
/// watchdog sends no heartbeat for that long. If mpirun ends this rank because another one died,
/// the watchdog prints what the rank waited for.
class Watchdog {
 public:
  static constexpr int kNobody = -1;

  /// @param timeout_seconds per operation; 0 = never
  /// @param rank kNobody if not yet known
  Watchdog(double timeout_seconds, int rank, int size);
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  /// Shown with the operation's name in a timeout message.
  void set_step(std::uint64_t step) noexcept { step_.store(step, std::memory_order_relaxed); }
  std::uint64_t step() const noexcept { return step_.load(std::memory_order_relaxed); }

  /// Sets a function that says what else is known about peers that do not answer; "" = nothing. The
  /// watchdog's thread calls it when the deadline has passed, and waits for it.
  void set_inquiry(std::function<std::string()> inquiry);

  /// Starts the deadline, again if it was running.
  /// @param operation a string literal
  /// @param peer the rank whose message is awaited, if any; this rank itself if no other rank is
  /// involved
  void arm(const char* operation, int peer = kNobody) noexcept;
  /// Another rank's message is awaited now; the deadline stays.
  void await(int peer) noexcept { peer_.store(peer, std::memory_order_relaxed); }
  void disarm() noexcept;

  // The heartbeat of the thread that created the watchdog. Its deadline is a tenth shorter than
  // that of a wait, so that a rank that is stuck outside MPI says so before its peers give up.

  /// From now on the thread does `activity`, a string literal, and must report again within the
  /// deadline. Its waits in MPI do not count, nor with `waits_too` those of another thread.
  void heartbeat(const char* activity, bool waits_too = false) noexcept;
  /// From now on the thread may take any time.
  void end_heartbeat() noexcept;
  /// The current activity; null: none that has a deadline.
  const char* activity() const noexcept { return activity_.load(std::memory_order_acquire); }

  /// Armed from construction to destruction. At most one at a time.
  class Guard {
   public:
    Guard(Watchdog& watchdog, const char* operation) noexcept : watchdog_(watchdog) {
      watchdog_.arm(operation);
    }
    ~Guard() { watchdog_.disarm(); }
    Guard(const Guard&) = delete;
    Guard& operator=(const Guard&) = delete;

   private:
    Watchdog& watchdog_;
  };

 private:
  void watch();
  void notice_sleep(double slept);
  void check_exchange();
  void check_heartbeat();
  void check_signals();
  void check_last_writing(const Signal& signal);
  [[noreturn]] void end(const std::string& sentence, Kind kind = Kind::timeout) const;
  std::string where(const char* operation) const;
  std::string awaited() const;
  std::string suspicion() const;
  double seconds_since(const std::atomic<std::int64_t>& start) const;

  const double timeout_seconds_;
  const int rank_, size_;
  const std::thread::id owner_;
  std::function<std::string()> inquiry_;  // set before anything is armed
  std::atomic<const char*> operation_{nullptr};
  std::atomic<int> peer_{kNobody};
  std::atomic<bool> armed_by_owner_{false};
  std::atomic<std::int64_t> started_ns_{0};  // of the operation
  std::atomic<std::int64_t> moved_ns_{0};    // last armed or disarmed
  std::atomic<const char*> activity_{nullptr};
  std::atomic<bool> waits_too_{false};
  std::atomic<std::int64_t> heartbeat_ns_{0};
  std::atomic<std::uint64_t> step_{0};
  std::mutex mutex_;
  std::condition_variable stop_changed_;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace eqt::comm
