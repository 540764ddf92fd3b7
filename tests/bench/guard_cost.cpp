// SPDX-License-Identifier: Apache-2.0
// Time of watchdog, heartbeat, agreement and checks in a step: nanoseconds and shares.
//
//   mpirun -np 2 build/release/tests/guard_cost

#include <fmt/core.h>
#include <xxhash.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <thread>
#include <vector>

#include "codec/finite.hpp"
#include "comm/communicator.hpp"
#include "comm/watchdog.hpp"
#include "support/catch.hpp"
#include "support/mpi_world.hpp"
#include "train/health_check.hpp"

using namespace eqt;

namespace {

constexpr std::size_t kValues = 11'173'962;  // of ResNet-18 for CIFAR-10
constexpr std::size_t kSlices = 62;
constexpr double kStepSeconds = 0.1;  // far below that of a ResNet-18 on the cores of a board

/// [seconds] of one call, the median over rounds.
double median_seconds(int rounds, int calls, const std::function<void()>& work) {
  std::vector<double> seconds;
  for (int round = 0; round < rounds; ++round) {
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < calls; ++i) work();
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
    seconds.push_back(taken.count() / calls);
  }
  std::ranges::nth_element(seconds, seconds.begin() + rounds / 2);
  return seconds[static_cast<std::size_t>(rounds / 2)];
}

void show(comm::Communicator& comm, const char* what, double seconds_per_step) {
  if (comm.rank() != 0) return;
  fmt::print("{:<56} {:>9.2f} us {:>8.4f} %\n", what, 1e6 * seconds_per_step,
             100 * seconds_per_step / kStepSeconds);
}

}  // namespace

TEST_CASE("the cost of all checks in a step of 100 ms") {
  comm::Communicator comm(test::session(), 300);
  comm::Watchdog watchdog(300, comm.rank(), comm.size());
  std::vector<float> values(kValues, 0.25f);

  const double arm = median_seconds(9, 100'000, [&] { watchdog.arm("ring", 0); });
  const double disarm = median_seconds(9, 100'000, [&] {
    watchdog.arm("ring", 0);
    watchdog.disarm();
  });
  const double heartbeat = median_seconds(9, 100'000, [&] { comm.heartbeat("backward pass"); });
  show(comm, "deadlines: 500 messages move in a step", 500 * arm + 50 * (disarm - arm));
  show(comm, "heartbeat: every tensor and six phases", (kSlices + 6) * heartbeat);

  const double asked = median_seconds(9, 1000, [&] { comm.stop_asked(); });
  show(comm, "ear for a note to stop", asked);

  // Health checks run during the steps. A step is 5 ms of sleep and a sum over ranks, as in
  // training; the remaining time is the cost.
  train::HealthCheck health_check(comm, false);
  std::vector<float> gradient(1000);
  const auto step = [&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    comm.allreduce_sum(gradient);
  };
  double spent = 0;
  constexpr int kSteps = 400;
  for (int i = 0; i < kSteps; ++i) {
    step();
    const auto start = std::chrono::steady_clock::now();
    health_check.after_step(0.005, true, {});
    spent += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }
  health_check.now({});
  // The number of reports per second does not depend on the time of a step.
  show(comm, "health checks, twice a second", spent / (kSteps * 0.005) * kStepSeconds);

  constexpr std::size_t kBucket = std::size_t{1} << 20;  // values of 4 MiB, fresh in the cache
  const double finite = median_seconds(9, 20, [&] {
    const auto bucket = std::span<const float>(values).first(kBucket);
    if (codec::first_non_finite(bucket) != kBucket) std::abort();
  });
  show(comm, "mean gradient of ResNet-18 is finite, bucket by bucket",
       finite * static_cast<double>(kValues) / static_cast<double>(kBucket));

  std::uint64_t hash = 0;
  const double hashing = median_seconds(
      9, 3, [&] { hash ^= XXH3_64bits(values.data(), values.size() * sizeof(float)); });
  show(comm, "train.paranoid: hash of ResNet-18", hashing);
  CHECK(hash != 1);  // it is used
}
