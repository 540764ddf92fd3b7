// SPDX-License-Identifier: Apache-2.0
#include "core/thread_clock.hpp"

#include <pthread.h>

#include <fstream>

namespace eqt {
namespace {

double seconds_of(clockid_t clock) {
  timespec time{};
  if (clock_gettime(clock, &time) != 0) return 0;
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

}  // namespace

void OtherWorkStopwatch::start() noexcept {
  clockid_t clock{};
  if (pthread_getcpuclockid(pthread_self(), &clock) != 0) return;
  start_ = seconds_of(clock);
  clock_ = clock;
}

double OtherWorkStopwatch::seconds() const noexcept {
  const clockid_t clock = clock_;
  return clock == kNone ? 0 : seconds_of(clock) - start_;
}

double DelayStopwatch::now() {
  // Nanoseconds that the thread ran, nanoseconds that it waited for a core.
  std::ifstream file("/proc/thread-self/schedstat");
  double ran = 0, waited = 0;
  return file >> ran >> waited ? 1e-9 * waited : 0;
}

}  // namespace eqt
