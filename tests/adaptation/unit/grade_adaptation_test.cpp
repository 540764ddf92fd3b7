// SPDX-License-Identifier: Apache-2.0
// Which steps are observed and which decide; samples of slices; means over observations.

#include <algorithm>
#include <vector>

#include "adaptation/grade_adaptation.hpp"
#include "adaptation/grade_observations.hpp"
#include "adaptation/grade_trial.hpp"
#include "codec/catalogue.hpp"
#include "support/catch.hpp"
#include "support/gaussian.hpp"
#include "support/layouts.hpp"

using namespace eqt;
using namespace eqt::adaptation;

TEST_CASE("the first steps and then multiples are observed, every fourth observation decides",
          "[grades]") {
  const auto steps = [](StepId every, std::uint64_t decide_every) {
    const ObservationSchedule schedule(every, decide_every);
    std::vector<StepId> observed, decided;
    for (StepId step = 0; step < 500; ++step) {
      if (!schedule.observes(step)) continue;
      observed.push_back(step);
      // By counting.
      const bool decides = observed.size() % decide_every == 0;
      CHECK(schedule.decides(step) == decides);
      if (decides) decided.push_back(step);
    }
    return decided;
  };
  CHECK(steps(50, 4) == std::vector<StepId>{3, 200, 400});
  CHECK(steps(1, 100) == std::vector<StepId>{99, 199, 299, 399, 499});
  CHECK(steps(2, 4).front() == 3);
  steps(3, 1);
  steps(7, 5);
  steps(1000, 3);
}

TEST_CASE("pairs of steps are observed, and each pair counts once", "[grades]") {
  for (const StepId every : {2u, 3u, 7u, 50u}) {
    const ObservationSchedule schedule(every, 3, true);
    std::uint64_t pairs = 0;
    bool open = false;
    for (StepId step = 0; step < 500; ++step) {
      if (!schedule.observes(step)) {
        CHECK_FALSE(open);
        continue;
      }
      CHECK(schedule.completes(step) == open);
      open = !open;
      if (open) continue;
      ++pairs;
      CHECK(schedule.decides(step) == (pairs % 3 == 0));
      if (step >= 8) CHECK((step - 1) % every == 0);
    }
    CHECK(pairs == 4 + 498 / every - 7 / every);
  }
}

TEST_CASE("means forget old observations and have no bias of their start", "[grades]") {
  RunningMeans means(2, 0.9);
  CHECK(means.empty());
  CHECK(means[0] == 0);
  means.add(std::vector<double>{4, -1});
  CHECK(means[0] == Approx(4));
  CHECK(means[1] == Approx(-1));
  means.add(std::vector<double>{8, -1});
  CHECK(means[0] == Approx((0.9 * 4 + 8) / 1.9));
  for (int i = 0; i < 300; ++i) means.add(std::vector<double>{8, -1});
  CHECK(means[0] == Approx(8));
}

TEST_CASE("samples are whole ranges of a slice, evenly spaced", "[grades]") {
  const auto compressor = codec::make_compressor(codec::kAuto, {.bucket_size = 512});
  const Layout layout = test::layout_of({{100, 300}, {300}, {64, 64}});
  const auto plan = pipeline::plan_buckets(layout, *compressor, {.bucket_bytes = 20000});
  const auto slices = compressed_slices(plan);
  REQUIRE(slices.size() == 2);
  CHECK(slices[0].slice == 0);
  CHECK(slices[0].count == 30000);
  CHECK(slices[1].slice == 2);
  CHECK(slices[1].count == 4096);
  for (const SliceParts& slice : slices) {
    for (const std::size_t most : {1u, 3u, 16u, 1000u}) {
      const auto sample = sample_of(slice, 512, most);
      REQUIRE_FALSE(sample.empty());
      CHECK(sample.front().first_index == 0);
      std::size_t count = 0;
      std::uint64_t end = 0;
      for (const auto& range : sample) {
        CHECK(range.first_index % 512 == 0);
        CHECK(range.first_index >= end);
        CHECK(range.begin == layout[slice.slice].offset + range.first_index);
        end = range.first_index + range.count;
        count += range.count;
      }
      CHECK(end <= slice.count);
      CHECK(count <= most * 1024);
      if (most == 1000) CHECK(count == slice.count);
    }
  }
}

TEST_CASE("finer grades have less error and more bytes", "[grades]") {
  const codec::MixedGrades mixed(
      {.bucket_size = 512, .menu = {"e-elastiquant:3@1", "e-elastiquant:5@1", "bf16", "none"}});
  const auto values = test::gaussian(8192, {.run_seed = 3});
  const std::vector<SliceParts::Part> whole = {{.begin = 0, .count = 8192, .first_index = 0}};
  GradeTrials trials(mixed);
  const auto found = trials.run(whole, values, {.run_seed = 1});
  REQUIRE(found.size() == 4);
  for (std::size_t k = 1; k < found.size(); ++k) {
    CHECK(found[k].bytes_per_value() > found[k - 1].bytes_per_value());
    CHECK(found[k].relative_error() < found[k - 1].relative_error());
    CHECK(found[k].values == 8192);
  }
  CHECK(found[3].relative_error() == 0);
  CHECK(found[3].bytes_per_value() == 4);
  CHECK(found[2].bytes_per_value() == 2);
}
