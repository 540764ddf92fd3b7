// SPDX-License-Identifier: Apache-2.0
#include "planner/goodput.hpp"

#include <cmath>
#include <random>

#include "support/catch.hpp"

namespace eqt::planner {

TEST_CASE("goodput is what a simulation of failures leaves", "[planner]") {
  const Failures f{.per_second = 1.0 / 60,
                   .restart_seconds = 6,
                   .join_seconds = 4,
                   .absent_seconds = 30,
                   .boards = 8,
                   .save_seconds = 0.02};
  constexpr double kInterval = 2;
  // An hour at a time: training proceeds with speed 1 - c / T; a failure loses what was computed
  // since the last state, stops training for R and J, and takes an eighth of it for A.
  std::mt19937_64 random(5);
  std::exponential_distribution<double> wait(f.per_second);
  double kept = 0, time = 0;
  for (int failure = 0; failure < 20000; ++failure) {
    const double until = wait(random);
    const double since = std::fmod(until, kInterval);
    kept += (until - since) * (1 - f.save_seconds / kInterval) - f.absent_seconds / f.boards;
    time += until + f.restart_seconds + f.join_seconds;
  }
  // The formula counts failures in all time, the simulation only in those while it trains.
  const double simulated = kept / time;
  CHECK(std::abs(goodput_of(f, kInterval) - simulated) < 0.06);
  CHECK(goodput_of(f, kInterval) < simulated);  // the formula is the more careful one
}

TEST_CASE("no other interval has more goodput than the best one", "[planner]") {
  const Failures f{.per_second = 1e-3, .boards = 4, .save_seconds = 0.05};
  const double best = best_interval_of(f);
  CHECK(best == Approx(10));
  for (const double factor : {0.5, 0.9, 1.1, 2.0})
    CHECK(goodput_of(f, factor * best) < goodput_of(f, best));
}

TEST_CASE("without failures only states take time", "[planner]") {
  const Failures f{.per_second = 0, .save_seconds = 0.05};
  CHECK(goodput_of(f, 5) == Approx(0.99));
  CHECK(std::isinf(best_interval_of(f)));
  CHECK(interval_in_memory(f) == Approx(5));
  CHECK(interval_in_memory({.save_seconds = 0.001}) == 1);
  CHECK(goodput_of({.per_second = 1, .save_seconds = 0}, 1) == 0);  // never less
}

}  // namespace eqt::planner
