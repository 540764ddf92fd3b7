// SPDX-License-Identifier: Apache-2.0
// Clocks that measure elapsed seconds.

#pragma once

#include <time.h>

#include <chrono>

namespace eqt {

/// Measures time by the monotonic clock.
class Stopwatch {
 public:
  double seconds() const { return std::chrono::duration<double>(Clock::now() - start_).count(); }
  void restart() { start_ = Clock::now(); }

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point start_ = Clock::now();
};

/// Adds the seconds of its own life to a sum.
class AddedSeconds {
 public:
  explicit AddedSeconds(double& sum) : sum_(sum) {}
  ~AddedSeconds() { sum_ += watch_.seconds(); }
  AddedSeconds(const AddedSeconds&) = delete;
  AddedSeconds& operator=(const AddedSeconds&) = delete;

 private:
  double& sum_;
  const Stopwatch watch_;
};

/// Measures the processor time of this thread, on which other threads on the same core have little
/// influence.
class WorkStopwatch {
 public:
  double seconds() const { return now() - start_; }

 private:
  static double now() {
    timespec time{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
  }
  double start_ = now();
};

}  // namespace eqt
