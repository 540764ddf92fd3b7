// SPDX-License-Identifier: Apache-2.0
// The slowest of many boards, drawn at once, and drawn one by one.

#include <algorithm>
#include <cmath>

#include "forecast/board_speed.hpp"
#include "support/catch.hpp"

namespace eqt::forecast {

TEST_CASE("the slowest of n boards takes as long as the longest of n steps", "[board-speed]") {
  const BoardSpeed speed = {.cv = 0.3, .stall_every = 20, .stall_seconds = 1, .changes = {}};
  constexpr int kRanks = 50;
  constexpr StepId kSteps = 4000;
  double at_once = 0, one_by_one = 0, square = 0, stalls_at_once = 0, stalls = 0;
  for (StepId step = 1; step <= kSteps; ++step) {
    const StepTime slowest = slowest_step_time(speed, 1, step, 0, kRanks);
    double longest = 0, stall = 0;
    for (Rank rank = 0; rank < kRanks; ++rank) {
      const StepTime time = step_time(speed, 2, step, rank);
      longest = std::max(longest, time.factor);
      stall = std::max(stall, time.stall_seconds);
    }
    at_once += slowest.factor;
    square += slowest.factor * slowest.factor;
    one_by_one += longest;
    stalls_at_once += slowest.stall_seconds;
    stalls += stall;
  }
  const auto n = static_cast<double>(kSteps);
  const double variance = square / n - at_once / n * at_once / n;
  // Five deviations of the difference of two means.
  CHECK(std::abs(at_once - one_by_one) / n < 5 * std::sqrt(2 * variance / n));
  CHECK(std::abs(stalls_at_once - stalls) / n < 5 * std::sqrt(2 * 0.4 / n));
}

TEST_CASE("stalls of which a step has very many are not none", "[board-speed]") {
  const BoardSpeed speed = {.cv = 0, .stall_every = 1e-3, .stall_seconds = 1, .changes = {}};
  CHECK(step_time(speed, 1, 1, 0).stall_seconds == 1000);
  CHECK(slowest_step_time(speed, 1, 1, 0, 50).stall_seconds == 1000);
}

TEST_CASE("of one board the slowest has the distribution of any step", "[board-speed]") {
  const BoardSpeed speed = {.cv = 0.2, .stall_every = 0, .stall_seconds = 0, .changes = {}};
  double sum = 0, square = 0;
  constexpr StepId kSteps = 10000;
  for (StepId step = 1; step <= kSteps; ++step) {
    const double factor = slowest_step_time(speed, 3, step, 0, 1).factor;
    sum += factor;
    square += factor * factor;
  }
  const double mean = sum / kSteps;
  CHECK(mean == Approx(1).margin(5 * 0.2 / 100));
  CHECK(std::sqrt(square / kSteps - mean * mean) == Approx(0.2).epsilon(0.1));
}

}  // namespace eqt::forecast
