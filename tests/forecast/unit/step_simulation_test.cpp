// SPDX-License-Identifier: Apache-2.0
// Step times that can be computed by hand.

#include "forecast/step_simulation.hpp"

#include "support/catch.hpp"
#include "support/forecast_cases.hpp"

namespace eqt::forecast {
namespace {

double seconds(const Cluster& cluster, const StepWork& work, std::size_t steps = 8) {
  return simulate_steps(cluster, work, {.steps = steps}).mean_seconds;
}

/// The same cluster, in which each board is a kind of its own: ranks are simulated one by one.
Cluster one_by_one(const Cluster& cluster) {
  Cluster result = cluster;
  result.boards.clear();
  for (Boards boards : cluster.boards)
    for (const int count = std::exchange(boards.count, 1); std::ssize(result.boards) < count;)
      result.boards.push_back(boards);
  return result;
}

}  // namespace

TEST_CASE("one board computes", "[forecast]") {
  Cluster cluster = equal_boards(1, 0.5, 1e6);
  cluster.boards[0].update_seconds = 0.1;
  const StepForecast forecast = simulate_steps(cluster, work_of(4, 2, 1e6, 0), {.steps = 5});
  CHECK(forecast.mean_seconds == Approx(0.6));
  CHECK(forecast.sent_bytes == 0);
  CHECK(forecast.boards.at(0).computing == Approx(0.6));
  CHECK(forecast.boards.at(0).waiting == Approx(0).margin(1e-12));
}

TEST_CASE("without overlap a bucket's work and messages come after computing", "[forecast]") {
  StepWork work = work_of(1, 2, 1000, 0.25);
  work.overlap = false;
  // 2 x (0.25 + 2 peers x 1000 / 1000 + 0.01) + 0.25, after a second of computing.
  const Cluster cluster = equal_boards(3, 1, 1000, 0.01);
  CHECK(seconds(cluster, work) == Approx(1 + 2 * (0.25 + 2 + 0.01) + 0.25));
  CHECK(seconds(one_by_one(cluster), work) == Approx(1 + 2 * (0.25 + 2 + 0.01) + 0.25));
}

TEST_CASE("what is sent during computing costs nothing", "[forecast]") {
  StepWork work = work_of(2, 1, 100, 0);
  work.buckets[0].ready = 0.4;
  const Cluster cluster = equal_boards(2, 1, 1000);
  CHECK(seconds(cluster, work) == Approx(1 + 0.1));
  work.overlap = false;
  CHECK(seconds(cluster, work) == Approx(1 + 0.2));
}

TEST_CASE("as many buckets are under way as there are slots", "[forecast]") {
  StepWork work = work_of(4, 1, 0, 0);
  for (BucketWork& bucket : work.buckets) bucket.ready = 1;
  work.buckets[0].rounds[0].message_bytes = 1;
  for (BucketWork& bucket : work.buckets) bucket.rounds[0].message_bytes = 1;
  const Cluster cluster = equal_boards(2, 1, 1e12, 0.1);
  CHECK(seconds(cluster, work) == Approx(1.1));
  work.slots = 2;
  CHECK(seconds(cluster, work) == Approx(1.2));
  work.slots = 1;
  CHECK(seconds(cluster, work) == Approx(1.4));
}

TEST_CASE("all wait for the slowest board", "[forecast]") {
  Cluster cluster = equal_boards(3, 1, 1e9);
  cluster.boards.push_back(cluster.boards[0]);
  cluster.boards[1].count = 1;
  cluster.boards[1].step_seconds = 4;
  const StepForecast forecast = simulate_steps(cluster, work_of(3, 1, 10, 0), {.steps = 6});
  CHECK(forecast.mean_seconds == Approx(4).epsilon(1e-6));
  CHECK(forecast.boards[0].waiting == Approx(3).epsilon(1e-6));
  CHECK(forecast.boards[1].waiting == Approx(0).margin(1e-6));
}

TEST_CASE("a ring passes 2 (n - 1) messages, one after the other", "[forecast]") {
  StepWork work = work_of(1, 1, 1000, 0);
  work.overlap = false;
  work.buckets[0].rounds[0] = {
      .seconds_before = 0.5, .message_bytes = 1000, .to = Peers::distance, .times = 6};
  const double expected = 1 + 6 * (0.5 + 1 + 0.1);
  CHECK(seconds(equal_boards(4, 1, 1000, 0.1), work) == Approx(expected));
  // Together: the same, by another way.
  const StepForecast together =
      simulate_steps(equal_boards(4, 1, 1000, 0.1), work, {.steps = 8, .most_effort = 0});
  CHECK_FALSE(together.by_rank);
  CHECK(together.mean_seconds == Approx(expected));
}

TEST_CASE("local SGD averages after every H-th step, and waits D steps later", "[forecast]") {
  StepWork work = work_of(1, 1, 1000, 0);
  work.after_update = true;
  work.every = 4;
  const Cluster cluster = equal_boards(2, 1, 1000 / 2.5);  // a mean takes 2.5 s
  CHECK(seconds(cluster, work) == Approx((4 + 2.5) / 4));
  work.delay = 2;
  const StepForecast late = simulate_steps(cluster, work, {.steps = 16});
  CHECK(late.mean_seconds == Approx((4 + 0.5) / 4));
  CHECK(late.step_seconds.size() == 3);
  CHECK(late.boards[0].waiting == Approx(0.5 / 4));
  CHECK(late.boards[0].sending == Approx(2.5 / 4));
  CHECK(late.sent_bytes == Approx(1000.0 / 4));
  work.delay = 4;
  CHECK(seconds(cluster, work, 16) == Approx(1));
}

TEST_CASE("on a radio channel each byte passes twice, and only one station sends", "[forecast]") {
  Cluster cluster = equal_boards(4, 1, 1000);
  cluster.links[0].shared = true;
  StepWork work = work_of(1, 1, 100, 0);
  work.overlap = false;
  CHECK(seconds(cluster, work) == Approx(1 + 4 * 3 * 100 * 2 / 1000.0));
  cluster.links[0].contention = 0.1;
  CHECK(seconds(cluster, work) == Approx(1 + 4 * 3 * 100 * 2 / 1000.0 * 1.3));
}

TEST_CASE("what leaves a switch shares its uplink", "[forecast]") {
  Cluster cluster = equal_boards(2, 1, 1000);
  cluster.boards.push_back(cluster.boards[0]);
  cluster.switches = {{.name = "a", .bytes_per_second = 500},
                      {.name = "b", .bytes_per_second = 1e9}};
  cluster.boards[0].at = 0;
  cluster.boards[1].at = 1;
  StepWork work = work_of(1, 1, 100, 0);
  work.overlap = false;
  // Two boards send 100 bytes to two others each through 500 bytes a second.
  CHECK(seconds(cluster, work) == Approx(1 + 400 / 500.0));
}

TEST_CASE("ranks of a board share its link and send each other nothing over it", "[forecast]") {
  Cluster cluster = equal_boards(2, 1, 1000);
  cluster.boards[0].ranks = 2;
  StepWork work = work_of(1, 1, 100, 0);
  work.overlap = false;
  CHECK(seconds(cluster, work) == Approx(1 + 2 * 2 * 100 / 1000.0));
  CHECK(seconds(one_by_one(cluster), work) == Approx(1 + 2 * 2 * 100 / 1000.0));
}

TEST_CASE("of a ring's messages those leave a board whose ranks end there", "[forecast]") {
  const auto ring = [](int distance) {
    StepWork work = work_of(1, 1, 0, 0);
    work.overlap = false;
    work.buckets[0].rounds[0] = {
        .message_bytes = 1000, .to = Peers::distance, .distance = distance, .times = 4};
    return work;
  };
  const auto together = [](const Cluster& cluster, const StepWork& work) {
    const StepForecast forecast = simulate_steps(cluster, work, {.steps = 8, .most_effort = 0});
    CHECK_FALSE(forecast.by_rank);
    return forecast.mean_seconds;
  };
  Cluster cluster = equal_boards(3, 1, 1000);
  cluster.boards[0].ranks = 4;
  // To the next rank: one of four messages of a board. Two and four further: two and four.
  for (const int distance : {1, 2, 4, 7}) {
    const int leaving = std::min(distance, 4);
    INFO(distance);
    CHECK(seconds(cluster, ring(distance)) == Approx(1 + 4.0 * leaving));
    CHECK(together(cluster, ring(distance)) == Approx(1 + 4.0 * leaving));
  }
  // Eleven further is one back.
  CHECK(seconds(cluster, ring(11)) == Approx(1 + 4.0));
  CHECK(together(cluster, ring(11)) == Approx(1 + 4.0));
  // One board: none.
  cluster.boards[0].count = 1;
  CHECK(together(cluster, ring(1)) == Approx(1));
}

TEST_CASE("threads share the cores of a board", "[forecast]") {
  Cluster cluster = equal_boards(2, 1, 1e12);
  cluster.boards[0].cores = 1;
  StepWork work = work_of(2, 1, 1, 0);
  work.buckets[0].ready = 0.5;
  work.buckets[0].rounds[0].seconds_before = 0.2;
  // Half of the core for 0.4 s, in which the second half of the step advances by 0.2 s.
  CHECK(seconds(cluster, work) == Approx(1.2));
  cluster.boards[0].cores = 2;
  CHECK(seconds(cluster, work) == Approx(1));
  cluster.cores_of_all = 2;  // two threads compute, two communicate
  CHECK(seconds(cluster, work) == Approx(1.2));
}

TEST_CASE("a gossip step waits for neighbours only", "[forecast]") {
  Cluster cluster = equal_boards(4, 1, 1000);
  StepWork work = work_of(1, 1, 100, 0);
  work.after_update = true;
  work.buckets[0].rounds[0].to = Peers::graph;
  work.graphs = {{{1, 3}, {0, 2}, {1, 3}, {0, 2}}};
  const StepForecast forecast = simulate_steps(cluster, work, {.steps = 4});
  CHECK(forecast.mean_seconds == Approx(1.2));
  CHECK(forecast.sent_bytes == Approx(200));
}

TEST_CASE("graphs of gossip are used in turn", "[forecast]") {
  // Pairs, and a step without messages.
  Cluster cluster = equal_boards(4, 1, 1000);
  StepWork work = work_of(1, 1, 100, 0);
  work.after_update = true;
  work.buckets[0].rounds[0].to = Peers::graph;
  work.graphs = {{{1}, {0}, {3}, {2}}, {{}, {}, {}, {}}};
  const StepForecast forecast = simulate_steps(cluster, work, {.steps = 4});
  CHECK(forecast.step_seconds[0] == Approx(1.1));
  CHECK(forecast.step_seconds[1] == Approx(1));
  CHECK(forecast.mean_seconds == Approx(1.05));
  CHECK(forecast.sent_bytes == Approx(50));
  // A slow rank delays its partner at once, and through later partners all others. A graph that
  // stayed would let two of the four run ahead.
  cluster = equal_boards(3, 1, 1e9);
  cluster.boards.push_back(cluster.boards[0]);
  cluster.boards[1].count = 1;
  cluster.boards[1].step_seconds = 2;
  work.graphs = {{{1}, {0}, {3}, {2}}, {{2}, {3}, {0}, {1}}};
  const StepForecast slow = simulate_steps(cluster, work, {.steps = 40});
  CHECK(slow.boards[0].waiting == Approx(1).epsilon(0.1));
  work.graphs.pop_back();
  CHECK(simulate_steps(cluster, work, {.steps = 40}).boards[0].waiting == Approx(1.0 / 3));
}

}  // namespace eqt::forecast
