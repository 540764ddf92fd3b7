// SPDX-License-Identifier: Apache-2.0
#include "train/batch_allocation.hpp"

#include <algorithm>
#include <limits>
#include <numeric>
#include <random>

#include "support/catch.hpp"

using namespace eqt::train;

namespace {

/// The least end of the slowest rank, over all divisions.
double best_by_search(const std::vector<RankSpeed>& speeds, const std::vector<BatchLimits>& limits,
                      std::size_t rest, std::size_t rank = 0) {
  const auto& [least, most] = limits[rank];
  if (rank + 1 == speeds.size()) {
    if (rest < least || rest > most) return std::numeric_limits<double>::infinity();
    return speeds[rank].seconds(rest);
  }
  double best = std::numeric_limits<double>::infinity();
  for (std::size_t samples = least; samples <= std::min(most, rest); ++samples)
    best = std::min(best, std::max(speeds[rank].seconds(samples),
                                   best_by_search(speeds, limits, rest - samples, rank + 1)));
  return best;
}

SpeedEstimate estimate_of(const std::vector<SpeedEstimate::Measurement>& measurements) {
  SpeedEstimate estimate;
  for (const auto& m : measurements) estimate.add(m);
  return estimate;
}

}  // namespace

TEST_CASE("no division ends sooner than the allocation") {
  std::mt19937 draw(7);
  const auto uniform = [&](double from, double to) {
    return std::uniform_real_distribution<double>(from, to)(draw);
  };
  for (int round = 0; round < 300; ++round) {
    const std::size_t ranks = 1 + draw() % 4, least = 1 + draw() % 3;
    const std::size_t total = ranks * least + draw() % 40;
    std::vector<RankSpeed> speeds;
    std::vector<BatchLimits> limits;
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      speeds.push_back({.fixed = draw() % 2 == 0 ? 0 : uniform(0, 3),
                        .per_sample = draw() % 8 == 0 ? 0 : uniform(0.01, 1)});
      limits.push_back({.least = least, .most = total / (1 + draw() % 2)});
    }
    limits[0].most = total;
    const auto batches = allocate_batches(speeds, limits, total);
    REQUIRE(std::accumulate(batches.begin(), batches.end(), std::size_t{0}) == total);
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      REQUIRE(batches[rank] >= limits[rank].least);
      REQUIRE(batches[rank] <= limits[rank].most);
    }
    REQUIRE(slowest_rank_seconds(speeds, batches) == best_by_search(speeds, limits, total));
  }
}

TEST_CASE("ranks of one speed get batches of one size") {
  const std::vector<RankSpeed> speeds(4, {.fixed = 0.1, .per_sample = 0.01});
  const std::vector<BatchLimits> limits(4, {.least = 8, .most = 128});
  CHECK(allocate_batches(speeds, limits, 256) == std::vector<std::size_t>(4, 64));
}

TEST_CASE("boards of ten to one compute in proportion to their speed") {
  // 7 + 4 + 3 + 4 boards, in units of the slowest: 96 units of speed for 18 boards.
  std::vector<RankSpeed> speeds;
  for (const auto& [count, speed] : {std::pair{7, 10.0}, {4, 4.0}, {3, 2.0}, {4, 1.0}})
    speeds.insert(speeds.end(), static_cast<std::size_t>(count),
                  {.fixed = 0, .per_sample = 1 / speed});
  const std::vector<BatchLimits> limits(18, {.least = 8, .most = 1152});
  const auto batches = allocate_batches(speeds, limits, 1152);
  CHECK(batches[0] == 120);
  CHECK(batches[7] == 48);
  CHECK(batches[11] == 24);
  CHECK(batches[17] == 12);
}

TEST_CASE("a rank's speed is the line through its measurements") {
  const RankSpeed speed = estimate_of({{10, 1.2}, {20, 2.2}, {40, 4.2}}).speed();
  CHECK(speed.fixed == Approx(0.2));
  CHECK(speed.per_sample == Approx(0.1));
}

TEST_CASE("one number of samples tells nothing of a fixed time") {
  const RankSpeed speed = estimate_of({{10, 1.0}, {10, 1.1}}).speed();
  CHECK(speed.fixed == 0);
  CHECK(speed.per_sample == Approx(0.105));
}

TEST_CASE("a fixed time is never below 0, and neither is the time of a sample") {
  const RankSpeed steep = estimate_of({{10, 1.0}, {11, 1.19}, {12, 1.36}}).speed();
  CHECK(steep.fixed == 0);
  CHECK(steep.per_sample > 0);
  const RankSpeed flat = estimate_of({{10, 1.1}, {12, 1.15}, {14, 1.0}}).speed();
  CHECK(flat.per_sample == 0);
  CHECK(flat.fixed == Approx(3.25 / 3));
}

TEST_CASE("a rank that changes its speed is measured anew") {
  SpeedEstimate estimate = estimate_of({{60, 1.0}, {80, 1.4}, {80, 1.38}});
  estimate.add({80, 2.8});
  REQUIRE(estimate.measurements().size() == 1);
  CHECK(estimate.speed().per_sample == Approx(2.8 / 80));
}

TEST_CASE("only the last measurements count") {
  SpeedEstimate estimate;
  for (int i = 0; i < 20; ++i) estimate.add({10.0 + i, 1.0 + 0.1 * i});
  CHECK(estimate.measurements().size() == SpeedEstimate::kWindows);
  CHECK(estimate.measurements().front().samples == 22);
}
