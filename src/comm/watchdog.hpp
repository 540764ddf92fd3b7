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

/// The last activity that any watchdog of this process was told of, for messages.
const char* last_activity() noexcept;

/// A thread that ends the process (exit code 7) in two cases: an armed operation takes longer than
/// its deadline, even if the waiting thread is stuck inside MPI; or the thread that made the
/// watchdog does not report for that long that its own work continues. If mpirun ends this rank
/// because another one died, it says what the rank waited for.
class Watchdog {
 public:
  static constexpr int kNobody = -1;

  /// @param timeout_seconds per operation; 0 = never
  /// @param rank kNobody: not known yet
  Watchdog(double timeout_seconds, int rank, int size);
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  /// Shown with the operation's name in a timeout message.
  void set_step(std::uint64_t step) noexcept { step_.store(step, std::memory_order_relaxed); }
  std::uint64_t step() const noexcept { return step_.load(std::memory_order_relaxed); }

  /// What else is known about peers that do not answer. Called when the deadline has passed, on the
  /// watchdog's thread, which waits for it. "" = nothing.
  void set_inquiry(std::function<std::string()> inquiry);

  /// Starts the deadline, again if it was running.
  /// @param operation a string literal
  /// @param peer the rank whose message is awaited, if there is one; this rank itself: no other
  /// rank is to blame
  void arm(const char* operation, int peer = kNobody) noexcept;
  void disarm() noexcept;

  // The heartbeat of the thread that made the watchdog. Its deadline is a tenth shorter than its
  // peers', so that a rank that is stuck outside MPI says so before they give up.

  /// From now on that thread computes: `activity`, a string literal, within the deadline. Its
  /// waiting in MPI does not count, nor, if it `waits_too`, another thread's.
  void heartbeat(const char* activity, bool waits_too = false) noexcept;
  /// From now on it may take any time.
  void end_heartbeat() noexcept;
  /// What it does at this moment; null: nothing that is timed.
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
