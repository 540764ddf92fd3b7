// SPDX-License-Identifier: Apache-2.0
// What ranks note of their last steps, and how rank 0 gets it.

#include "sync/timeline.hpp"

#include <vector>

#include "comm/communicator.hpp"
#include "support/catch.hpp"
#include "support/mpi_world.hpp"

using namespace eqt;
using metrics::Activity;
using metrics::TimelineRecord;
using sync::Timeline;

namespace {

/// The records that rank 0 has of this rank alone, on every rank.
std::vector<TimelineRecord> gathered(Timeline& timeline, comm::Communicator& comm) {
  std::vector<TimelineRecord> records = timeline.gather(comm);
  CHECK((comm.rank() == 0 || records.empty()));
  return records;
}

}  // namespace

TEST_CASE("ranks of one kernel share its clock", "[timeline]") {
  comm::Communicator comm(test::session(), 30);
  const double start = Timeline(1).now();  // of the steady clock
  const sync::CommonClock clock = sync::agree_on_clock(comm);
  CHECK(clock.error_seconds == 0);
  Timeline timeline(1);
  timeline.set_clock(clock);
  // Rank 0's moment of agreement is 0, and no rank is before it.
  CHECK(timeline.now() >= 0);
  if (comm.rank() == 0) CHECK(-clock.offset_seconds >= start);
  std::vector<double> offsets(static_cast<std::size_t>(comm.size()));
  offsets[static_cast<std::size_t>(comm.rank())] = clock.offset_seconds;
  comm.allreduce_sum(offsets);
  for (const double offset : offsets) CHECK(offset == offsets[0]);
}

TEST_CASE("the last steps of all ranks arrive in order, once", "[timeline]") {
  comm::Communicator comm(test::session(), 30);
  Timeline timeline(3);
  for (StepId step = 1; step <= 5; ++step) {
    timeline.begin_step(step);
    const auto from = static_cast<double>(10 * step + static_cast<StepId>(comm.rank()));
    timeline.note(Activity::compute, from, from + 1);
    timeline.note(Activity::wait, from + 1, from + 2);
  }
  const std::vector<TimelineRecord> records = gathered(timeline, comm);
  if (comm.rank() == 0) {
    REQUIRE(records.size() == 3 * static_cast<std::size_t>(comm.size()));
    for (std::size_t i = 0; i < records.size(); ++i) {
      const TimelineRecord& record = records[i];
      CHECK(record.step == 3 + i / static_cast<std::size_t>(comm.size()));
      CHECK(record.rank == static_cast<Rank>(i % static_cast<std::size_t>(comm.size())));
      REQUIRE(record.spans.size() == 2);
      const auto from = static_cast<double>(10 * record.step + static_cast<StepId>(record.rank));
      CHECK(record.spans[0].activity == Activity::compute);
      CHECK(record.spans[0].begin == from);
      CHECK(record.spans[1].activity == Activity::wait);
      CHECK(record.spans[1].end == from + 2);
    }
  }
  CHECK(gathered(timeline, comm).empty());
  // Ranks may have taken different numbers of steps.
  for (StepId step = 6; step <= 6 + static_cast<StepId>(comm.rank() % 2); ++step) {
    timeline.begin_step(step);
    timeline.note(Activity::update, 1, 2);
  }
  const std::size_t expected = static_cast<std::size_t>(comm.size() + comm.size() / 2);
  const std::vector<TimelineRecord> more = gathered(timeline, comm);
  if (comm.rank() == 0) CHECK(more.size() == expected);
}

TEST_CASE("short spans are dropped, adjoining ones joined, and their number is bounded",
          "[timeline]") {
  comm::Communicator comm(test::session(), 30);
  Timeline timeline(1);
  timeline.begin_step(1);
  timeline.note(Activity::compute, 0, 1e-5);
  timeline.note(Activity::compute, 1, 2);
  timeline.note(Activity::transfer, 1.5, 1.75);
  timeline.note(Activity::compute, 2, 3);
  timeline.note(Activity::compute, 4, 5);
  const std::vector<TimelineRecord> records = gathered(timeline, comm);
  timeline.begin_step(2);
  for (int i = 0; i < 1000; ++i) timeline.note(Activity::wait, i, i + 0.5);
  const std::vector<TimelineRecord> many = gathered(timeline, comm);
  if (comm.rank() != 0) return;
  REQUIRE(records[0].spans.size() == 3);
  CHECK(records[0].spans[0].begin == 1);
  CHECK(records[0].spans[0].end == 3);
  CHECK(records[0].spans[2].begin == 4);
  CHECK(many[0].spans.size() == 256);
}

TEST_CASE("a thread that exchanges messages either waits for them or works", "[timeline]") {
  comm::Communicator comm(test::session(), 30);
  Timeline timeline(1);
  timeline.begin_step(1);
  sync::MessageSpans spans(&timeline);
  const auto pass = [&](double seconds) {
    for (const double until = timeline.now() + seconds; timeline.now() < until;) {
    }
  };
  spans.begin();
  pass(0.001);
  const double waiting = timeline.now();
  pass(0.002);
  spans.waited(timeline.now() - waiting);
  pass(0.001);
  const double idle = timeline.now();
  pass(0.002);
  spans.idled(idle);
  pass(0.001);
  spans.end();
  const std::vector<TimelineRecord> records = gathered(timeline, comm);
  if (comm.rank() != 0) return;
  const auto& found = records[0].spans;
  REQUIRE(found.size() == 4);
  CHECK(found[0].activity == Activity::messages);
  CHECK(found[1].activity == Activity::transfer);
  CHECK(found[2].activity == Activity::messages);
  CHECK(found[3].activity == Activity::messages);
  CHECK(found[0].end == found[1].begin);
  CHECK(found[1].end == found[2].begin);
  CHECK(found[3].begin - found[2].end >= 0.002);  // idle
  for (const auto& span : found) CHECK(span.end - span.begin >= 0.001);
  sync::MessageSpans none(nullptr);  // does nothing
  none.begin(), none.waited(1), none.idled(0), none.end();
}
