// SPDX-License-Identifier: Apache-2.0
// Clocks of threads: what another one works, and how long this one waits for a core.

#pragma once

#include <time.h>

#include <atomic>

namespace eqt {

/// Measures the processor time of the thread that called start(). Other threads may ask for it as
/// long as that thread lives.
class OtherWorkStopwatch {
 public:
  void start() noexcept;
  /// Undoes start().
  void reset() noexcept { clock_ = kNone; }
  /// 0 before start().
  double seconds() const noexcept;

 private:
  static constexpr clockid_t kNone = 0x7fffffff;
  std::atomic<clockid_t> clock_ = kNone;
  std::atomic<double> start_ = 0;
};

/// Measures the time that this thread could have run while others had the cores, which Linux counts
/// in /proc/thread-self/schedstat. It is 0 where that file is not there.
class DelayStopwatch {
 public:
  void restart() { start_ = now(); }
  double seconds() const { return now() - start_; }

 private:
  static double now();
  double start_ = now();
};

}  // namespace eqt
