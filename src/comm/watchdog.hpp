// A deadline around every collective: a rank that waits too long ends the job with a sentence.

#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>

namespace eqt::comm {

/// One thread that ends the process (exit code 7) when an armed operation runs past its deadline.
class Watchdog {
 public:
  /// @param timeout_seconds per operation; 0 = never
  Watchdog(double timeout_seconds, int rank, int size);
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  /// Shown beside the operation's name when it runs out of time.
  void set_step(std::uint64_t step) noexcept { step_.store(step, std::memory_order_relaxed); }

  /// Armed from construction to destruction. At most one at a time.
  class Guard {
   public:
    /// @param operation a string literal
    Guard(Watchdog& watchdog, const char* operation) noexcept;
    ~Guard();
    Guard(const Guard&) = delete;
    Guard& operator=(const Guard&) = delete;

   private:
    Watchdog& watchdog_;
  };

 private:
  void watch();

  const double timeout_seconds_;
  const int rank_, size_;
  std::atomic<const char*> operation_{nullptr};
  std::atomic<std::int64_t> started_ns_{0};
  std::atomic<std::uint64_t> step_{0};
  std::mutex mutex_;
  std::condition_variable stop_changed_;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace eqt::comm
