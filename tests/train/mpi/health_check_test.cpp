// SPDX-License-Identifier: Apache-2.0
#include "train/health_check.hpp"

#include <algorithm>

#include "support/catch.hpp"
#include "support/mpi_world.hpp"

using namespace eqt;
using namespace eqt::train;

namespace {

/// The step after which this rank received a bad health status; -1: none.
int first_status(HealthCheck& health_check, int steps, double seconds, int from,
                 const HealthReport& report, HealthStatus& found) {
  for (int step = 0; step < steps; ++step) {
    const HealthStatus status =
        health_check.after_step(seconds, true, step >= from ? report : HealthReport{});
    if (status.clear()) continue;
    found = status;
    return step;
  }
  return -1;
}

/// Equal on all ranks. CHECK it on each.
bool same(comm::Communicator& comm, std::uint64_t value) {
  const auto all = comm.allgather(value);
  return std::ranges::count(all, all[0]) == std::ssize(all);
}

}  // namespace

TEST_CASE("all ranks learn of one rank's stop after the same step") {
  comm::Communicator comm(test::session(), 30);
  const Rank told = comm.size() - 1;
  HealthCheck health_check(comm, false);
  HealthReport report;
  report.stop = comm.rank() == told;
  HealthStatus found;
  // Ten reports per second would be too many: with steps of 0.1 s every fifth carries one, or the
  // next if it has just been sent, and the result arrives a step later.
  const int step = first_status(health_check, 100, 0.1, 20, report, found);
  CHECK(step >= 21);
  CHECK(step <= 26);
  CHECK(found.stop == told);
  CHECK_FALSE(found.diverged);
  CHECK(same(comm, static_cast<std::uint64_t>(step)));
}

TEST_CASE("rank 0's clock determines the interval of all") {
  comm::Communicator comm(test::session(), 30);
  HealthCheck health_check(comm, false);
  int due = 0;
  for (int step = 0; step < 100; ++step) {
    due += health_check.is_due(true) ? 1 : 0;
    // The clocks of the others stand still.
    health_check.after_step(comm.rank() == 0 ? 0.05 : 0, true, {});
  }
  CHECK(due >= 10);  // every tenth, and a few until the pace was known
  CHECK(due <= 12);
  CHECK(same(comm, static_cast<std::uint64_t>(due)));
  CHECK(health_check.now({}).clear());
}

TEST_CASE("ranks without exchanges in a step report later") {
  comm::Communicator comm(test::session(), 30);
  HealthCheck health_check(comm, false);
  for (int step = 0; step < 10; ++step) health_check.after_step(0.25, true, {});
  int due = 0;
  for (int step = 0; step < 80; ++step) {
    due += health_check.is_due(false) ? 1 : 0;
    health_check.after_step(0.25, false, {});
  }
  CHECK(due == 10);  // of an interval of two steps, every fourth
  CHECK(health_check.now({}).clear());
}

TEST_CASE("with a report every step a divergence is known one step later") {
  comm::Communicator comm(test::session(), 30);
  HealthCheck health_check(comm, true);
  HealthReport report;
  report.diverged = comm.rank() == 0;
  HealthStatus found;
  CHECK(first_status(health_check, 20, 0.001, 7, report, found) == 8);
  CHECK(found.diverged == 0);
  CHECK_FALSE(found.stop);
}

TEST_CASE("replicas whose hashes differ in one bit are detected") {
  comm::Communicator comm(test::session(), 30);
  constexpr std::uint64_t kHash = 0xFEDCBA9876543210u;
  for (const int bit : {0, 31, 32, 63}) {
    HealthCheck health_check(comm, true);
    HealthReport report;
    report.hash = kHash;
    HealthStatus found;
    CHECK(first_status(health_check, 4, 0.1, 0, report, found) == -1);
    const bool odd = comm.size() > 1 && comm.rank() == comm.size() - 1;
    report.hash = odd ? kHash ^ (std::uint64_t{1} << bit) : kHash;
    CHECK(health_check.now(report).replicas_differ == (comm.size() > 1));
  }
}

TEST_CASE("a pending report arrives at the latest when all ranks ask for it") {
  comm::Communicator comm(test::session(), 30);
  HealthCheck health_check(comm, true);
  HealthReport report;
  report.diverged = comm.rank() == 0;
  CHECK(health_check.after_step(0.1, true, report).clear());
  const HealthStatus status = health_check.now({});
  CHECK(status.diverged == 0);
}

TEST_CASE("all ranks save after the step in which they learn that rank 0 wants it") {
  comm::Communicator comm(test::session(), 30);
  HealthCheck health_check(comm, true);
  HealthReport report;
  report.save = comm.rank() == 0;
  HealthStatus status = health_check.after_step(0.1, true, report);
  CHECK_FALSE(status.save);
  status = health_check.after_step(0.1, true, {});
  CHECK(status.save);
  CHECK(status.clear());  // training goes on
  status = health_check.now({});
  CHECK_FALSE(status.save);
}

TEST_CASE("a state is written when all ranks have written it") {
  comm::Communicator comm(test::session(), 30);
  HealthCheck health_check(comm, true);
  HealthReport report;
  report.written = comm.rank() != comm.size() - 1;
  CHECK_FALSE(health_check.now(report).written);
  report.written = true;
  CHECK(health_check.now(report).written);
}
