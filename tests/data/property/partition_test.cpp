// SPDX-License-Identifier: Apache-2.0
// Laws of partitions over many sizes, classes, rank counts and degrees of skew.

#include <algorithm>
#include <cmath>
#include <iterator>
#include <numeric>

#include "core/random.hpp"
#include "data/partition.hpp"
#include "data/partition_plan.hpp"
#include "support/catch.hpp"
#include "support/partitions.hpp"

using namespace eqt;
using namespace eqt::data;
using namespace eqt::data::test;

namespace {

struct Case {
  std::vector<int> labels;
  int classes = 1;
  int ranks = 1;
  double skew = 0;
  std::uint64_t seed = 0;
};

/// Unequal classes of at least `smallest` samples.
Case draw_case(std::uint64_t index, std::uint64_t smallest = 0) {
  const RandomStream stream({.run_seed = 11, .step = index});
  Case c;
  c.classes = 1 + static_cast<int>(stream.bounded(0, 12));
  c.ranks = 1 + static_cast<int>(stream.bounded(1, 25));
  const double skews[] = {0, 1, 0.5, 0.8, 0.9, stream.uniform(2)};
  c.skew = skews[stream.bounded(3, 6)];
  c.seed = stream.bits(4);
  const std::uint64_t largest = 1 + stream.bounded(5, 300);
  std::vector<std::size_t> sizes;
  for (int k = 0; k < c.classes; ++k)
    sizes.push_back(smallest + stream.bounded(10 + static_cast<std::uint32_t>(k), largest));
  c.labels = shuffled_labels(sizes, index);
  return c;
}

/// Of each class its first int(s size) samples, class after class.
std::vector<std::size_t> samples_in_order(const Case& c) {
  std::vector<std::size_t> list;
  for (int k = 0; k < c.classes; ++k) {
    const auto size = static_cast<double>(std::count(c.labels.begin(), c.labels.end(), k));
    auto left = static_cast<std::size_t>(c.skew * size);
    for (std::size_t i = 0; i < c.labels.size() && left > 0; ++i) {
      if (c.labels[i] != k) continue;
      list.push_back(i);
      --left;
    }
  }
  return list;
}

constexpr std::uint64_t kCases = 400;

}  // namespace

TEST_CASE("no partition uses a sample twice, for any sizes", "[partition]") {
  for (std::uint64_t i = 0; i < kCases; ++i) {
    const Case c = draw_case(i);
    CAPTURE(i, c.labels.size(), c.classes, c.ranks, c.skew);
    require_no_sample_twice(plan_skew(c.labels, c.classes, c.skew, c.ranks, c.seed),
                            c.labels.size(), c.ranks);
    if (c.labels.size() >= static_cast<std::size_t>(c.ranks)) {
      require_no_sample_twice(plan_iid(c.labels.size(), c.ranks, c.seed), c.labels.size(), c.ranks);
    }
  }
}

TEST_CASE("ranks of a skewed partition take the sorted list from its front, in turn",
          "[partition]") {
  for (std::uint64_t i = 0; i < kCases; ++i) {
    const Case c = draw_case(i);
    CAPTURE(i, c.labels.size(), c.classes, c.ranks, c.skew);
    const PartitionPlan plan = plan_skew(c.labels, c.classes, c.skew, c.ranks, c.seed);
    const std::vector<std::size_t> in_order = samples_in_order(c);
    const double share = 1.0 / c.ranks * static_cast<double>(c.labels.size());
    const auto sorted_each = static_cast<std::size_t>(share * c.skew);
    const auto random_each = static_cast<std::size_t>(share * (1 - c.skew));
    std::size_t used = 0;
    for (const auto& shard : plan.shards) {
      const std::size_t given = std::min(sorted_each, in_order.size() - used);
      REQUIRE(shard.size() == given + random_each);
      for (std::size_t k = 0; k < given; ++k) REQUIRE(shard[k] == in_order[used + k]);
      used += given;
    }
  }
}

TEST_CASE("truncation leaves fewer than two samples per rank and one per class", "[partition]") {
  for (std::uint64_t i = 0; i < kCases; ++i) {
    const Case c = draw_case(i);
    CAPTURE(i, c.labels.size(), c.classes, c.ranks, c.skew);
    const PartitionPlan plan = plan_skew(c.labels, c.classes, c.skew, c.ranks, c.seed);
    CHECK(plan.leftover_samples <=
          2 * static_cast<std::size_t>(c.ranks) + static_cast<std::size_t>(c.classes));
  }
}

TEST_CASE("histograms count every sample of a shard", "[partition]") {
  for (std::uint64_t i = 0; i < kCases; ++i) {
    const Case c = draw_case(i);
    const PartitionPlan plan = plan_skew(c.labels, c.classes, c.skew, c.ranks, c.seed);
    const ClassHistogram histogram = plan.class_histogram(c.labels, c.classes);
    REQUIRE(histogram.size() == plan.shards.size());
    for (std::size_t rank = 0; rank < histogram.size(); ++rank) {
      REQUIRE(histogram[rank].size() == static_cast<std::size_t>(c.classes));
      REQUIRE(std::accumulate(histogram[rank].begin(), histogram[rank].end(), std::size_t{0}) ==
              plan.shards[rank].size());
    }
  }
}

TEST_CASE("Dirichlet partitions of any sizes give equal shards", "[partition]") {
  for (std::uint64_t i = 0; i < kCases; ++i) {
    // For classes this large and shares this even a valid draw is soon found.
    const Case c = draw_case(i, 100);
    CAPTURE(i, c.labels.size(), c.classes, c.ranks);
    const PartitionPlan plan = plan_dirichlet(c.labels, c.classes, 100, c.ranks, c.seed);
    require_no_sample_twice(plan, c.labels.size(), c.ranks);
    for (const auto& shard : plan.shards) REQUIRE(shard.size() == plan.shards[0].size());
    REQUIRE(plan.leftover_samples <
            2 * static_cast<std::size_t>(c.ranks));  // 1 / n itself may round down
  }
}

namespace {

using Orders = std::vector<std::vector<std::size_t>>;  // by rank

Orders orders_of(std::size_t samples, int ranks, std::uint64_t seed, std::uint64_t epoch) {
  Orders orders;
  for (int rank = 0; rank < ranks; ++rank)
    orders.push_back(ReshuffledPartition(samples, rank, ranks, seed).order(epoch));
  return orders;
}

/// The samples that all ranks have visited after `each` samples per rank, sorted.
std::vector<std::size_t> visited(const Orders& orders, std::size_t each) {
  std::vector<std::size_t> all;
  for (const auto& order : orders)
    std::copy_n(order.begin(), std::min(each, order.size()), std::back_inserter(all));
  std::sort(all.begin(), all.end());
  return all;
}

}  // namespace

TEST_CASE("every epoch's reshuffled shards cover the set, as a function of seed and epoch",
          "[partition]") {
  for (std::uint64_t i = 0; i < kCases; ++i) {
    const RandomStream stream({.run_seed = 13, .step = i});
    const int ranks = 1 + static_cast<int>(stream.bounded(0, 12));
    const std::size_t samples = static_cast<std::size_t>(ranks) + stream.bounded(1, 300);
    const std::uint64_t seed = stream.bits(2);
    CAPTURE(i, samples, ranks);
    CHECK(plan_reshuffled(samples, ranks, seed).shards == orders_of(samples, ranks, seed, 0));
    for (const std::uint64_t epoch : {0u, 1u, stream.bits(3)}) {
      const Orders orders = orders_of(samples, ranks, seed, epoch);
      require_no_sample_twice({.shards = orders}, samples, ranks);
      for (const auto& order : orders) {
        CHECK(order.size() >= samples / static_cast<std::size_t>(ranks));
        CHECK(order.size() <= samples / static_cast<std::size_t>(ranks) + 1);
      }
      // Independent of earlier calls.
      const ReshuffledPartition last(samples, ranks - 1, ranks, seed);
      (void)last.order(epoch + 1);
      CHECK(last.order(epoch) == orders.back());
      CHECK(last.size() == orders.back().size());
    }
  }
  CHECK(orders_of(300, 2, 5, 1)[0] != orders_of(300, 2, 5, 2)[0]);
  CHECK(orders_of(300, 2, 5, 1)[0] != orders_of(300, 2, 6, 1)[0]);
}

TEST_CASE("any number of ranks can continue a reshuffled epoch of others", "[partition]") {
  constexpr std::size_t kSamples = 240;
  const std::vector<std::size_t> by_one = orders_of(kSamples, 1, 7, 3)[0];
  for (const int ranks : {2, 3, 4, 6, 8}) {
    const Orders orders = orders_of(kSamples, ranks, 7, 3);
    for (std::size_t seen = 0; seen <= kSamples; seen += 24) {
      std::vector<std::size_t> expected(by_one.begin(),
                                        by_one.begin() + static_cast<std::ptrdiff_t>(seen));
      std::sort(expected.begin(), expected.end());
      CHECK(visited(orders, seen / static_cast<std::size_t>(ranks)) == expected);
    }
  }
}

TEST_CASE("over the epochs a sample visits every rank equally often", "[partition]") {
  constexpr int kRanks = 4, kEpochs = 800;
  std::vector<int> visits(kRanks, 0);
  for (std::uint64_t epoch = 0; epoch < kEpochs; ++epoch) {
    const Orders orders = orders_of(40, kRanks, 1, epoch);
    for (std::size_t r = 0; r < kRanks; ++r)
      visits[r] += static_cast<int>(std::count(orders[r].begin(), orders[r].end(), 17u));
  }
  // Binomial with p = 1/4: 200 of 800 +- 12.2; five of them.
  for (const int n : visits) CHECK(std::abs(n - kEpochs / kRanks) < 5 * 12.3);
}
