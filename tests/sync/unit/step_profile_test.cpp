// SPDX-License-Identifier: Apache-2.0
// When gradients are ready is recorded once in a run, in the order of the backward pass.

#include "sync/step_clock.hpp"

#include <algorithm>

#include "support/catch.hpp"

using namespace eqt;
using namespace eqt::sync;

namespace {

const Layout kLayout = {{.name = "first", .shape = {1}, .offset = 0, .count = 1},
                        {.name = "middle", .shape = {1}, .offset = 1, .count = 1},
                        {.name = "last", .shape = {1}, .offset = 2, .count = 1}};

/// A step whose slices are ready from the last to the first.
const StepClock& after_a_step(StepClock& clock) {
  clock.begin();
  for (std::size_t slice = kLayout.size(); slice-- > 0;) clock.slice_ready(slice);
  clock.bucket_ready(0);
  clock.computed();
  clock.end(false);
  return clock;
}

}  // namespace

TEST_CASE("the record comes after step 24 and no other", "[profile]") {
  StepClock clock(kLayout.size(), 1, false);
  StepProfile profile(kLayout);
  for (StepId step = 0; step < 40; ++step) {
    const auto record = profile.add(step, after_a_step(clock));
    REQUIRE(record.has_value() == (step + 1 == 24));
    if (!record) continue;
    CHECK(record->step == 24);
    CHECK(record->steps == 5);
  }
}

TEST_CASE("moments are means that ascend from the last slice on", "[profile]") {
  StepClock clock(kLayout.size(), 1, false);
  StepProfile profile(kLayout);
  double forward = 0, backward = 0, first = 0;
  for (StepId step = 0; step < 24; ++step) {
    after_a_step(clock);
    if (step + 1 >= kFirstProfiled) {
      forward += clock.forward();
      backward += clock.backward();
      first += clock.slices()[0];
    }
    const auto record = profile.add(step, clock);
    if (!record) continue;
    CHECK(record->forward == Approx(forward / 5));
    CHECK(record->backward == Approx(backward / 5));
    const auto& slices = record->slices;
    REQUIRE(slices.size() == 3);
    CHECK(slices[0].name == "last");
    CHECK(slices[2].name == "first");
    CHECK(slices[0].ready == record->forward);
    CHECK(slices[2].ready == Approx(first / 5));
    CHECK(std::ranges::is_sorted(slices, {}, &metrics::ProfileRecord::Slice::ready));
    CHECK(slices[2].ready <= record->forward + record->backward);
  }
}

TEST_CASE("steps that are taken again count once", "[profile]") {
  StepClock clock(kLayout.size(), 1, false);
  StepProfile profile(kLayout);
  std::size_t records = 0;
  std::uint64_t steps = 0;
  const auto take = [&](StepId from, StepId to) {
    for (StepId step = from; step < to; ++step)
      if (const auto record = profile.add(step, after_a_step(clock))) {
        ++records;
        steps = record->steps;
      }
  };
  take(0, 22);
  take(10, 30);  // after a rollback
  CHECK(records == 1);
  CHECK(steps == 5);
  take(20, 30);
  CHECK(records == 1);
}

TEST_CASE("a run that goes on within the profiled steps has no record", "[profile]") {
  StepClock clock(kLayout.size(), 1, false);
  StepProfile profile(kLayout);
  for (StepId step = 21; step < 40; ++step) CHECK_FALSE(profile.add(step, after_a_step(clock)));
}
