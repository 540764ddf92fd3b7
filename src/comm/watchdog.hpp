// A deadline around all waiting: a rank that waits too long ends the job with a sentence.

#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string>
#include <thread>

namespace eqt::comm {

/// One thread that ends the process (exit code 7) when an armed operation runs past its deadline,
/// even where the waiting thread is stuck inside MPI. If it is ended by SIGTERM meanwhile, it says
/// what it waited for.
class Watchdog {
 public:
  static constexpr int kNobody = -1;

  /// @param timeout_seconds per operation; 0 = never
  Watchdog(double timeout_seconds, int rank, int size);
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  /// Shown beside the operation's name when it runs out of time.
  void set_step(std::uint64_t step) noexcept { step_.store(step, std::memory_order_relaxed); }

  std::uint64_t step() const noexcept { return step_.load(std::memory_order_relaxed); }

  /// Starts the deadline, anew if it was running.
  /// @param operation a string literal
  /// @param peer whose message is awaited, if one is; this rank itself: nobody else is to blame
  void arm(const char* operation, int peer = kNobody) noexcept;
  void disarm() noexcept;

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
  void terminate(const char* operation) const;
  std::string where(const char* operation) const;
  std::string awaited() const;
  const char* suspicion() const;

  const double timeout_seconds_;
  const int rank_, size_;
  std::atomic<const char*> operation_{nullptr};
  std::atomic<int> peer_{kNobody};
  std::atomic<std::int64_t> started_ns_{0};
  std::atomic<std::uint64_t> step_{0};
  std::mutex mutex_;
  std::condition_variable stop_changed_;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace eqt::comm
