// SPDX-License-Identifier: Apache-2.0
// Steps of emulated boards that do not all take the same time.

#include "forecast/board_speed.hpp"

#include <chrono>
#include <cmath>

#include "model/emulated_replica.hpp"
#include "support/catch.hpp"
#include "support/toy_replica.hpp"

namespace eqt::model {
namespace {

using forecast::BoardSpeed;
using forecast::step_time;
using forecast::StepTime;

constexpr StepId kSteps = 40000;

}  // namespace

TEST_CASE("without jitter every step takes the usual time", "[emulation]") {
  for (StepId step = 1; step < 100; ++step) {
    const StepTime time = step_time({}, 1, step, 0);
    CHECK(time.factor == 1);
    CHECK(time.stall_seconds == 0);
  }
}

TEST_CASE("the time of a step is lognormal with mean 1 and the deviation asked for",
          "[emulation]") {
  const double cv = GENERATE(0.1, 0.5, 1.0);
  const BoardSpeed speed{.cv = cv, .changes = {}};
  double sum = 0, logarithms = 0, square_logarithms = 0;
  for (StepId step = 1; step <= kSteps; ++step) {
    const double factor = step_time(speed, 3, step, 1).factor;
    REQUIRE(factor > 0);
    sum += factor;
    logarithms += std::log(factor), square_logarithms += std::pow(std::log(factor), 2);
  }
  const double n = kSteps;
  // Five standard errors: of the mean cv / sqrt(n); of the mean and variance of a normal variable
  // with variance v, sqrt(v / n) and v sqrt(2 / n). exp(v) = 1 + cv^2, and the mean is -v/2.
  const double v = std::log(1 + cv * cv);
  CHECK(sum / n == Approx(1).margin(5 * cv / std::sqrt(n)));
  CHECK(logarithms / n == Approx(-v / 2).margin(5 * std::sqrt(v / n)));
  CHECK(square_logarithms / n - std::pow(logarithms / n, 2) ==
        Approx(v).margin(5 * v * std::sqrt(2 / n)));
}

TEST_CASE("stalls are a Poisson process", "[emulation]") {
  const double every = GENERATE(0.5, 2.0, 50.0);
  const BoardSpeed speed{.stall_every = every, .stall_seconds = 0.25, .changes = {}};
  double sum = 0, square = 0, none = 0;
  for (StepId step = 1; step <= kSteps; ++step) {
    const double stalls = step_time(speed, 5, step, 0).stall_seconds / 0.25;
    REQUIRE(stalls == std::floor(stalls));
    sum += stalls, square += stalls * stalls, none += stalls == 0 ? 1 : 0;
  }
  const double n = kSteps, mean = 1 / every, zero = std::exp(-mean);
  CHECK(sum / n == Approx(mean).margin(5 * std::sqrt(mean / n)));
  CHECK(none / n == Approx(zero).margin(5 * std::sqrt(zero * (1 - zero) / n)));
  // The variance of the sample variance of a Poisson variable is (m + 2 m^2) / n.
  CHECK(square / n - std::pow(sum / n, 2) ==
        Approx(mean).margin(5 * std::sqrt((mean + 2 * mean * mean) / n)));
}

TEST_CASE("the time of a step is a function of seed, step and rank", "[emulation]") {
  const BoardSpeed speed{.cv = 0.3, .changes = {}};
  const double first = step_time(speed, 1, 2, 3).factor;
  CHECK(step_time(speed, 1, 2, 3).factor == first);
  CHECK(step_time(speed, 4, 2, 3).factor != first);
  CHECK(step_time(speed, 1, 5, 3).factor != first);
  CHECK(step_time(speed, 1, 2, 6).factor != first);
}

TEST_CASE("a change of speed holds from its step on, until the next", "[emulation]") {
  // In no order; of two for the same step the last one counts.
  const BoardSpeed speed{.changes = {{20, 0.5}, {10, 2}, {20, 3}, {30, 1}}};
  for (StepId step = 1; step <= 40; ++step) {
    CAPTURE(step);
    const double expected = step < 10 ? 1 : step < 20 ? 2 : step < 30 ? 3 : 1;
    CHECK(step_time(speed, 1, step, 0).factor == expected);
  }
  // The mean over steps is what a report of late wake-ups compares with.
  const EmulationOptions options{.step_seconds = 0.5, .speed = speed};
  CHECK(planned_seconds(options, 40) == Approx(0.5 * (9 * 1 + 10 * 2 + 10 * 3 + 11 * 1) / 40));
}

TEST_CASE("a board is no faster than its stalls and changes allow", "[emulation]") {
  const EmulationOptions options{
      .step_seconds = 0.02,
      .batches = 2,
      .speed = {.stall_every = 0.5, .stall_seconds = 0.01, .changes = {{2, 3}}}};
  const auto replica =
      make_emulated_replica(std::make_unique<test::ToyReplica>(40, 10, 1), options);
  for (StepId step = 1; step <= 3; ++step) {
    const StepTime time = step_time(options.speed, options.seed, step, options.rank);
    const auto start = std::chrono::steady_clock::now();
    (void)replica->forward_backward({}, {});
    (void)replica->forward_backward({}, {});
    const double taken =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    CHECK(taken >= 2 * 0.02 * (step < 2 ? 1 : 3) + time.stall_seconds - 1e-6);
  }
}

}  // namespace eqt::model
