// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <set>

#include "core/error.hpp"
#include "data/partition.hpp"
#include "data/partition_plan.hpp"
#include "support/catch.hpp"
#include "support/partitions.hpp"

using namespace eqt;
using namespace eqt::data;
using namespace eqt::data::test;

namespace {

/// CIFAR-10's ten classes of 5000 divided by skew s.
struct Case {
  double skew;
  int ranks;
  std::size_t shard;               // samples of every rank
  double first, second, of_other;  // rank 0's expected counts of classes 0, 1 and each other one
  double deviation;                // of the random samples of one class
};

/// `drawn` of `list` samples, a tenth of which are of the class: hypergeometric.
double deviation(double drawn, double list) {
  return std::sqrt(drawn * 0.1 * 0.9 * (list - drawn) / (list - 1));
}

}  // namespace

TEST_CASE("degrees of skew give CIFAR-10 the published histograms", "[skew]") {
  // Published from one run: 4124 / 1117 / 100-150, 4560 / 1190 / 50-80, 2365 / 892 / 350-400, and
  // 2843 / - / about 30. The expectations: the samples in order, and a tenth of the random ones.
  const Case cases[] = {
      {0.8, 8, 6249, 4000 + 124.9, 1000 + 124.9, 124.9, deviation(1249, 10000)},
      {0.9, 8, 6249, 4500 + 62.4, 1125 + 62.4, 62.4, deviation(624, 5000)},
      {0.4, 8, 6250, 2000 + 375, 500 + 375, 375, deviation(3750, 30000)},
      {0.9, 16, 3124, 2812 + 31.2, 31.2, 31.2, deviation(312, 5000)},
  };
  const std::vector<int> labels = cifar10_labels();
  for (const Case& c : cases) {
    CAPTURE(c.skew, c.ranks);
    const PartitionPlan plan = plan_skew(labels, 10, c.skew, c.ranks, 5);
    require_no_sample_twice(plan, labels.size(), c.ranks);
    for (const auto& shard : plan.shards) REQUIRE(shard.size() == c.shard);
    CHECK(plan.leftover_samples == 50000 - c.shard * static_cast<std::size_t>(c.ranks));
    const auto rank0 = plan.class_histogram(labels, 10).at(0);
    for (std::size_t k = 0; k < 10; ++k) {
      CAPTURE(k);
      const double expected = k == 0 ? c.first : k == 1 ? c.second : c.of_other;
      CHECK(std::abs(static_cast<double>(rank0[k]) - expected) < 5 * c.deviation);
    }
  }
}

TEST_CASE("skew 1 gives whole classes in order", "[skew]") {
  const std::vector<int> labels = cifar10_labels();
  const PartitionPlan plan = plan_skew(labels, 10, 1, 8, 5);
  require_no_sample_twice(plan, labels.size(), 8);
  CHECK(plan.leftover_samples == 0);
  const ClassHistogram histogram = plan.class_histogram(labels, 10);
  CHECK(histogram[0] == std::vector<std::uint64_t>{5000, 1250, 0, 0, 0, 0, 0, 0, 0, 0});
  CHECK(histogram[1] == std::vector<std::uint64_t>{0, 3750, 2500, 0, 0, 0, 0, 0, 0, 0});
  CHECK(histogram[7] == std::vector<std::uint64_t>{0, 0, 0, 0, 0, 0, 0, 0, 1250, 5000});
  // The sort is stable: rank 0's samples of a class are in the order of the set.
  CHECK(std::is_sorted(plan.shards[0].begin(), plan.shards[0].begin() + 5000));
}

TEST_CASE("skew 0 is a random partition", "[skew]") {
  const std::vector<int> labels = cifar10_labels();
  const PartitionPlan plan = plan_skew(labels, 10, 0, 8, 5);
  require_no_sample_twice(plan, labels.size(), 8);
  CHECK(plan.leftover_samples == 0);
  for (const auto& counts : plan.class_histogram(labels, 10)) {
    for (const std::uint64_t count : counts)
      CHECK(std::abs(static_cast<double>(count) - 625) < 5 * deviation(6250, 50000));
  }
  CHECK(plan.fingerprint() != plan_skew(labels, 10, 0, 8, 6).fingerprint());
}

TEST_CASE("products are truncated as Python truncates them", "[skew]") {
  // Python: int(1/8 * 50000 * (1 - 0.8)) is 1249, int(1/49 * 49) is 0, int(0.29 * 100) is 28.
  const std::vector<int> labels = cifar10_labels();
  const PartitionPlan plan = plan_skew(labels, 10, 0.8, 8, 5);
  CHECK(plan.shards[3].size() == 5000 + 1249);
  CHECK(plan_skew(std::vector<int>(49, 0), 1, 1, 49, 5).leftover_samples == 49);
  const PartitionPlan one = plan_skew(std::vector<int>(100, 0), 1, 0.29, 1, 5);
  CHECK(one.shards[0].size() == 28 + 71);
}

TEST_CASE("if small classes shorten the sorted list, the last rank gets fewer samples", "[skew]") {
  // Ten classes of 3 give int(3 x 0.55) = 1 each, 10 in order, of which two ranks want
  // int(15 x 0.55) = 8 each.
  const std::vector<int> labels = shuffled_labels(std::vector<std::size_t>(10, 3), 1);
  const PartitionPlan plan = plan_skew(labels, 10, 0.55, 2, 5);
  require_no_sample_twice(plan, labels.size(), 2);
  const std::size_t at_random = 6;  // int(15 x 0.45) = int(6.75)
  CHECK(plan.shards[0].size() == 8 + at_random);
  CHECK(plan.shards[1].size() == 2 + at_random);
  CHECK(plan.smallest_shard() == 2 + at_random);
  CHECK(plan.leftover_samples == 30 - 16 - 6);
}

TEST_CASE("plans repeat, and differ with the seed", "[skew]") {
  const std::vector<int> labels = cifar10_labels();
  const auto fingerprint = [&](std::uint64_t seed) {
    return plan_skew(labels, 10, 0.5, 4, seed).fingerprint();
  };
  CHECK(fingerprint(5) == fingerprint(5));
  CHECK(fingerprint(5) != fingerprint(6));
}

TEST_CASE("an epoch visits exactly the rank's shard", "[skew]") {
  const std::vector<int> labels = shuffled_labels({30, 40, 50}, 2);
  const PartitionPlan plan = plan_skew(labels, 3, 0.7, 3, 5);
  const auto& shard = plan.shards[1];
  const ShardPartition partition(shard, 1, 5);
  CHECK(partition.size() == shard.size());
  const std::multiset<std::size_t> own(shard.begin(), shard.end());
  const auto first = partition.order(0), second = partition.order(1);
  CHECK(std::multiset<std::size_t>(first.begin(), first.end()) == own);
  CHECK(std::multiset<std::size_t>(second.begin(), second.end()) == own);
  CHECK(first != second);
}

TEST_CASE("a label outside the classes is refused", "[skew]") {
  CHECK_THROWS_AS(plan_skew(std::vector<int>{0, 3}, 3, 0.5, 1, 5), Error);
  CHECK_THROWS_AS(plan_skew(std::vector<int>{0, -1}, 3, 0.5, 1, 5), Error);
}
