// SPDX-License-Identifier: Apache-2.0
#include "optim/schedule.hpp"

#include <cmath>
#include <limits>

#include "core/error.hpp"
#include "support/catch.hpp"

using namespace eqt::optim;
using eqt::Error;
using eqt::StepId;

namespace {

ScheduleOptions options_of(eqt::Entry<ScheduleRow> kind) {
  ScheduleOptions options;
  options.kind = kind;
  options.learning_rate = 0.4;
  options.steps_per_epoch = 10;
  options.total_steps = 100;
  return options;
}

}  // namespace

TEST_CASE("a constant rate does not change", "[schedule]") {
  const auto schedule = make_schedule(options_of(kConstant));
  for (const StepId step : {0u, 1u, 99u, 1000u}) REQUIRE(schedule->rate(step) == 0.4f);
}

TEST_CASE("warm-up rises linearly to the whole rate", "[schedule]") {
  auto options = options_of(kConstant);
  options.warmup_epochs = 0.5;  // 5 steps
  const auto schedule = make_schedule(options);
  const float expected[] = {0.08f, 0.16f, 0.24f, 0.32f, 0.4f, 0.4f};
  for (StepId step = 0; step < 6; ++step) REQUIRE(schedule->rate(step) == Approx(expected[step]));
}

TEST_CASE("a step schedule drops at the first step of each milestone", "[schedule]") {
  auto options = options_of(kStep);
  options.milestones = {5, 2.5};
  options.factor = 0.1;
  const auto schedule = make_schedule(options);
  REQUIRE(schedule->rate(0) == 0.4f);
  REQUIRE(schedule->rate(24) == 0.4f);
  REQUIRE(schedule->rate(25) == Approx(0.04));
  REQUIRE(schedule->rate(49) == Approx(0.04));
  REQUIRE(schedule->rate(50) == Approx(0.004));
  REQUIRE(schedule->rate(1000) == Approx(0.004));
}

TEST_CASE("warm-up does not delay milestones", "[schedule]") {
  auto options = options_of(kStep);
  options.milestones = {2};
  options.factor = 0.5;
  options.warmup_epochs = 1;
  const auto schedule = make_schedule(options);
  REQUIRE(schedule->rate(0) == Approx(0.04));
  REQUIRE(schedule->rate(9) == Approx(0.4));
  REQUIRE(schedule->rate(19) == Approx(0.4));
  REQUIRE(schedule->rate(20) == Approx(0.2));
}

TEST_CASE("a cosine falls from the rate to zero", "[schedule]") {
  const auto schedule = make_schedule(options_of(kCosine));
  REQUIRE(schedule->rate(0) == Approx(0.4));
  REQUIRE(schedule->rate(50) == Approx(0.2));                         // cos 90 degrees = 0
  REQUIRE(schedule->rate(25) == Approx(0.2 * (1 + std::sqrt(0.5))));  // cos 45 degrees
  REQUIRE(schedule->rate(75) == Approx(0.2 * (1 - std::sqrt(0.5))));
  REQUIRE(schedule->rate(100) == 0);
  REQUIRE(schedule->rate(5000) == 0);
  for (StepId step = 0; step < 100; ++step)
    REQUIRE(schedule->rate(step) > schedule->rate(step + 1));
}

TEST_CASE("a straight line falls from the rate to zero", "[schedule]") {
  auto options = options_of(kLinear);
  const auto schedule = make_schedule(options);
  REQUIRE(schedule->rate(0) == 0.4f);
  REQUIRE(schedule->rate(25) == Approx(0.3));
  REQUIRE(schedule->rate(99) == Approx(0.004));
  REQUIRE(schedule->rate(100) == 0.0f);
  REQUIRE(schedule->rate(1000) == 0.0f);
  // As get_linear_schedule_with_warmup of Hugging Face's transformers: it rises over the warm-up,
  // whose last step here has the whole rate, and falls over the steps after it.
  options.warmup_epochs = 2;
  const auto warmed = make_schedule(options);
  REQUIRE(warmed->rate(0) == Approx(0.02));
  REQUIRE(warmed->rate(19) == Approx(0.4));
  REQUIRE(warmed->rate(20) == Approx(0.4));
  REQUIRE(warmed->rate(60) == Approx(0.2));
  REQUIRE(warmed->rate(99) == Approx(0.005));
}

TEST_CASE("a warm-up may be longer than the run", "[schedule]") {
  auto options = options_of(kLinear);
  options.warmup_epochs = 20;
  const auto schedule = make_schedule(options);
  REQUIRE(schedule->rate(99) == Approx(0.2));
}

TEST_CASE("a cosine begins where the warm-up ends", "[schedule]") {
  auto options = options_of(kCosine);
  options.warmup_epochs = 2;
  const auto schedule = make_schedule(options);
  REQUIRE(schedule->rate(0) == Approx(0.02));
  REQUIRE(schedule->rate(19) == Approx(0.4));
  REQUIRE(schedule->rate(20) == Approx(0.4));
  REQUIRE(schedule->rate(60) == Approx(0.2));  // half of the 80 steps left
  REQUIRE(schedule->rate(100) == 0);
  options.warmup_epochs = 20;  // longer than the run: there is only warm-up
  REQUIRE(make_schedule(options)->rate(99) == Approx(0.2));
}

TEST_CASE("schedules refuse values out of range", "[schedule]") {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const auto require_usage = [](const ScheduleOptions& options, const std::string& key) {
    try {
      make_schedule(options);
      FAIL(key << " out of range was accepted");
    } catch (const Error& error) {
      REQUIRE(error.kind() == eqt::Kind::usage);
      REQUIRE(std::string(error.what()).find(key) != std::string::npos);
    }
  };
  for (const double bad : {-1.0, nan, double{INFINITY}}) {
    auto options = options_of(kStep);
    options.learning_rate = bad;
    require_usage(options, "optimizer.learning_rate");
    options = options_of(kStep);
    options.factor = bad;
    require_usage(options, "schedule.factor");
    options = options_of(kStep);
    options.warmup_epochs = bad;
    require_usage(options, "schedule.warmup_epochs");
    options = options_of(kStep);
    options.milestones = {1, bad};
    require_usage(options, "schedule.milestones");
  }
}
