// SPDX-License-Identifier: Apache-2.0
// Laws of the forecast, on clusters and work drawn at random.

#include <algorithm>
#include <cmath>
#include <random>

#include "support/catch.hpp"
#include "support/forecast_cases.hpp"

namespace eqt::forecast {
namespace {

constexpr int kCases = 150;

struct Case {
  Cluster cluster;
  StepWork work;
};

/// Equal boards if `symmetric`, else two kinds with links of their own.
Case draw(std::mt19937& random, bool symmetric) {
  const auto between = [&](double low, double high) {
    return low * std::pow(high / low, std::uniform_real_distribution<>(0, 1)(random));
  };
  const auto whole = [&](int low, int high) {
    return std::uniform_int_distribution<>(low, high)(random);
  };
  Case c;
  // Named one after another: compilers differ in the order in which they evaluate arguments.
  const double latency = between(1e-5, 1e-2), rate = between(1e6, 1e8);
  const double step_seconds = between(0.05, 2);
  c.cluster = equal_boards(whole(2, 4), step_seconds, rate, latency);
  c.cluster.boards[0].update_seconds = between(1e-4, 1e-1);
  c.cluster.boards[0].codec_speed = between(0.3, 3);
  if (!symmetric) {
    c.cluster.boards.push_back(c.cluster.boards[0]);
    c.cluster.boards[1].count = whole(1, 2);
    c.cluster.boards[1].step_seconds *= between(0.3, 3);
    c.cluster.links.push_back(c.cluster.links[0]);
    c.cluster.links[1].bytes_per_second *= between(0.3, 3);
    c.cluster.boards[1].link = 1;
  }
  const double seconds_before = between(1e-5, 1e-1), bytes = between(1e2, 1e7);
  const auto rounds = static_cast<std::size_t>(whole(1, 3));
  c.work = work_of(static_cast<std::size_t>(whole(1, 6)), rounds, bytes, seconds_before);
  c.work.slots = static_cast<std::size_t>(whole(1, 8));
  c.work.overlap = whole(0, 1) == 1;
  return c;
}

double seconds(const Case& c) {
  return simulate_steps(c.cluster, c.work, {.steps = 6}).mean_seconds;
}

/// Every board is a kind of its own, in this order.
Case one_by_one(const Case& c, bool backwards) {
  Case result = c;
  result.cluster.boards.clear();
  for (const Boards& kind : c.cluster.boards) {
    Boards one = kind;
    one.count = 1;
    for (int i = 0; i < kind.count; ++i) result.cluster.boards.push_back(one);
  }
  if (backwards) std::ranges::reverse(result.cluster.boards);
  return result;
}

}  // namespace

TEST_CASE("a step is between the longest of its parts and their sum", "[forecast]") {
  std::mt19937 random(1);
  for (int i = 0; i < kCases; ++i) {
    const Case c = draw(random, true);
    const Boards& boards = c.cluster.boards[0];
    const Link& link = c.cluster.links[0];
    const double computing = boards.step_seconds + boards.update_seconds;
    double working = 0, bytes = 0, rounds = 0;
    for (const BucketWork& bucket : c.work.buckets) {
      for (const Round& round : bucket.rounds) {
        working += round.seconds_before / boards.codec_speed;
        bytes += round.message_bytes * (boards.count - 1);
        rounds += 1;
      }
      working += bucket.seconds_after / boards.codec_speed;
    }
    const double sending = bytes / link.bytes_per_second;
    const double step = seconds(c);
    CHECK(step >= std::max({computing, working, sending}) * (1 - 1e-9));
    CHECK(step <= (computing + working + sending + rounds * link.latency_seconds) * (1 + 1e-9));
    const StepForecast forecast = simulate_steps(c.cluster, c.work, {.steps = 6});
    CHECK(forecast.sent_bytes == Approx(bytes));
    CHECK(forecast.boards[0].computing + forecast.boards[0].waiting == Approx(step));
  }
}

TEST_CASE("all times and 1 / rates times c: the step times c", "[forecast]") {
  std::mt19937 random(2);
  for (int i = 0; i < kCases; ++i) {
    const Case c = draw(random, i % 2 == 0);
    Case scaled = c;
    constexpr double kFactor = 3.7;
    for (Boards& boards : scaled.cluster.boards) {
      boards.step_seconds *= kFactor;
      boards.update_seconds *= kFactor;
      boards.codec_speed /= kFactor;
    }
    for (Link& link : scaled.cluster.links) {
      link.bytes_per_second /= kFactor;
      link.latency_seconds *= kFactor;
    }
    CHECK(seconds(scaled) == Approx(kFactor * seconds(c)).epsilon(1e-9));
  }
}

TEST_CASE("faster links, shorter messages and less latency never slow equal boards down",
          "[forecast]") {
  std::mt19937 random(3);
  for (int i = 0; i < kCases; ++i) {
    const Case c = draw(random, true);
    const double before = seconds(c) * (1 + 1e-9);
    Case other = c;
    other.cluster.links[0].bytes_per_second *= 1.5;
    CHECK(seconds(other) <= before);
    other = c;
    other.cluster.links[0].latency_seconds *= 0.5;
    CHECK(seconds(other) <= before);
    other = c;
    for (BucketWork& bucket : other.work.buckets)
      for (Round& round : bucket.rounds) round.message_bytes *= 0.8;
    CHECK(seconds(other) <= before);
  }
}

TEST_CASE("the order of boards, and whether they are simulated one by one, changes nothing",
          "[forecast]") {
  std::mt19937 random(4);
  for (int i = 0; i < kCases / 3; ++i) {
    const Case c = draw(random, i % 2 == 0);
    const double together = seconds(c);
    CHECK(seconds(one_by_one(c, false)) == Approx(together).epsilon(1e-6));
    CHECK(seconds(one_by_one(c, true)) == Approx(together).epsilon(1e-6));
  }
}

TEST_CASE("a typical and the slowest board stand for up to 32 whose steps vary", "[forecast]") {
  const int boards = GENERATE(4, 16, 32);
  const double cv = GENERATE(0.1, 0.4);
  Cluster cluster = equal_boards(boards, 0.2, 1e8, 1e-4);
  cluster.boards[0].speed.cv = cv;
  const StepWork work = work_of(3, 2, 1e5, 1e-4);
  const StepForecast all =
      simulate_steps(cluster, work, {.steps = 1000, .seed = 2, .most_effort = 1e12});
  const StepForecast two =
      simulate_steps(cluster, work, {.steps = 1000, .seed = 1, .most_effort = 0});
  CHECK(all.by_rank);
  CHECK_FALSE(two.by_rank);
  CHECK(two.mean_seconds == Approx(all.mean_seconds).epsilon(0.03));
}

TEST_CASE("the same seed gives the same steps", "[forecast]") {
  Cluster cluster = equal_boards(4, 0.2, 1e7, 1e-3);
  cluster.boards[0].speed = {.cv = 0.3, .stall_every = 10, .stall_seconds = 1, .changes = {}};
  cluster.links[0].jitter_seconds = 1e-3;
  const StepWork work = work_of(3, 2, 1e5, 1e-4);
  const auto steps = [&](std::uint64_t seed) {
    return simulate_steps(cluster, work, {.steps = 30, .seed = seed}).step_seconds;
  };
  CHECK(steps(1) == steps(1));
  CHECK(steps(1) != steps(2));
}

}  // namespace eqt::forecast
