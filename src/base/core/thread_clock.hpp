// SPDX-License-Identifier: Apache-2.0
// Clocks of threads: what another one works, and how long this one waits for a core.

#pragma once

#include <time.h>

#include <atomic>

namespace eqt {

/// By the processor time of the thread that called start(), for other threads, which may ask as
/// long as that thread lives.
class OtherWorkStopwatch {
 public:
  void start() noexcept;
  /// As if start() had not been called.
  void reset() noexcept { clock_ = kNone; }
  /// 0 before start().
  double seconds() const noexcept;

 private:
  static constexpr clockid_t kNone = 0x7fffffff;
  std::atomic<clockid_t> clock_ = kNone;
  std::atomic<double> start_ = 0;
};

/// By the time that this thread could have run while others had the cores, which Linux counts in
/// /proc/thread-self/schedstat. Where that is not there, 0.
class DelayStopwatch {
 public:
  void restart() { start_ = now(); }
  double seconds() const { return now() - start_; }

 private:
  static double now();
  double start_ = now();
};

}  // namespace eqt
