// SPDX-License-Identifier: Apache-2.0
#include "core/thread_clock.hpp"

#include <atomic>
#include <chrono>
#include <thread>

#include "core/clock.hpp"
#include "support/catch.hpp"

using namespace eqt;

TEST_CASE("another thread's work is seen, its sleep is not", "[clock]") {
  OtherWorkStopwatch other;
  CHECK(other.seconds() == 0);
  constexpr double kWork = 0.05;
  std::atomic<double> worked = 0;
  std::atomic<bool> seen = false;
  std::thread thread([&] {
    other.start();
    const WorkStopwatch own;
    while (own.seconds() < kWork) {
    }
    worked = own.seconds();
    while (!seen) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  });
  while (worked == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  const double found = other.seconds();
  seen = true;
  thread.join();
  CHECK(found >= worked);
  CHECK(found < 2 * kWork);  // far more would be time on the wall of a busy machine
  other.reset();
  CHECK(other.seconds() == 0);
}

TEST_CASE("a thread's delays never shrink", "[clock]") {
  DelayStopwatch delay;
  const WorkStopwatch own;
  double last = 0;
  while (own.seconds() < 0.01) {
    const double now = delay.seconds();
    CHECK(now >= last);
    last = now;
  }
}
