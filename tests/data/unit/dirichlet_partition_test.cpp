// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "core/error.hpp"
#include "data/partition_plan.hpp"
#include "support/catch.hpp"
#include "support/partitions.hpp"
#include "support/refusal.hpp"

using namespace eqt;
using namespace eqt::data;
using namespace eqt::data::test;

namespace {

/// Mean over ranks of the total variation distance between a rank's classes and the uniform
/// distribution: 0 for equal shares, 1 - 1 / classes for one class a rank.
double distance_to_uniform(const PartitionPlan& plan, const std::vector<int>& labels, int classes) {
  double sum = 0;
  for (std::size_t rank = 0; rank < plan.shards.size(); ++rank) {
    const auto counts = plan.class_histogram(labels, classes)[rank];
    for (const std::uint64_t count : counts)
      sum += 0.5 *
             std::abs(static_cast<double>(count) / static_cast<double>(plan.shards[rank].size()) -
                      1.0 / classes);
  }
  return sum / static_cast<double>(plan.shards.size());
}

double mean_distance(double alpha, int ranks) {
  const std::vector<int> labels = shuffled_labels(std::vector<std::size_t>(10, 500), 3);
  constexpr int kSeeds = 10;
  double sum = 0;
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed)
    sum += distance_to_uniform(plan_dirichlet(labels, 10, alpha, ranks, seed), labels, 10);
  return sum / kSeeds;
}

}  // namespace

TEST_CASE("Dirichlet shards are equal in size and use no sample twice", "[dirichlet]") {
  const std::vector<int> labels = cifar10_labels();
  // 1, one group, a full one, two and three groups; 50000 / 16 = 3125, / 23 = 2173.9.
  const std::pair<int, std::size_t> cases[] = {{1, 50000}, {4, 12500}, {8, 6250}, {10, 5000},
                                               {11, 4545}, {16, 3125}, {23, 2173}};
  for (const auto& [ranks, size] : cases) {
    for (const double alpha : {0.1, 1.0, 10.0}) {
      CAPTURE(ranks, alpha);
      const PartitionPlan plan = plan_dirichlet(labels, 10, alpha, ranks, 5);
      require_no_sample_twice(plan, labels.size(), ranks);
      for (const auto& shard : plan.shards) CHECK(shard.size() == size);
      CHECK(plan.leftover_samples == 50000 - size * static_cast<std::size_t>(ranks));
    }
  }
}

TEST_CASE("the smaller alpha, the further ranks are from uniform classes", "[dirichlet]") {
  for (const int ranks : {4, 10, 16}) {
    CAPTURE(ranks);
    const double strong = mean_distance(0.1, ranks), middle = mean_distance(1, ranks),
                 mild = mean_distance(10, ranks), none = mean_distance(1e6, ranks);
    CHECK(strong > 1.2 * middle);
    CHECK(middle > 1.2 * mild);
    CHECK(mild > 1.2 * none);
    CHECK(none < 0.1);
  }
}

TEST_CASE("in the limit of alpha 0 ten ranks have one of ten equal classes each", "[dirichlet]") {
  // Every class is assigned to one rank, which then has T / m samples and gets no other class.
  const std::vector<int> labels = shuffled_labels(std::vector<std::size_t>(10, 70), 3);
  for (const double alpha : {1e-6, 1e-300, 5e-324}) {
    const PartitionPlan plan = plan_dirichlet(labels, 10, alpha, 10, 5);
    for (const auto& counts : plan.class_histogram(labels, 10))
      CHECK(std::count(counts.begin(), counts.end(), 70u) == 1);
  }
}

TEST_CASE("in the limit of a large alpha every rank has its share of each class", "[dirichlet]") {
  const std::vector<int> labels = shuffled_labels({1000, 2000, 3000}, 3);
  const PartitionPlan plan = plan_dirichlet(labels, 3, 1e9, 4, 5);
  // Truncated cuts of proportions that are 1/4 up to 1e-4, and boundaries that shift by as much.
  for (const auto& counts : plan.class_histogram(labels, 3)) {
    CHECK(std::abs(static_cast<double>(counts[0]) - 250) <= 5);
    CHECK(std::abs(static_cast<double>(counts[1]) - 500) <= 5);
    CHECK(std::abs(static_cast<double>(counts[2]) - 750) <= 5);
  }
}

TEST_CASE("a Dirichlet plan is a function of labels, alpha, ranks and seed", "[dirichlet]") {
  const std::vector<int> labels = shuffled_labels(std::vector<std::size_t>(10, 100), 3);
  const auto fingerprint = [&](double alpha, int ranks, std::uint64_t seed) {
    return plan_dirichlet(labels, 10, alpha, ranks, seed).fingerprint();
  };
  CHECK(fingerprint(0.5, 4, 5) == fingerprint(0.5, 4, 5));
  CHECK(fingerprint(0.5, 4, 5) != fingerprint(0.5, 4, 6));
  CHECK(fingerprint(0.5, 4, 5) != fingerprint(0.6, 4, 5));
}

TEST_CASE("two groups draw independently", "[dirichlet]") {
  // With the same draws rank r + 10 would have nearly rank r's classes; without, it is as far from
  // them as rank r + 11.
  const std::vector<int> labels = shuffled_labels(std::vector<std::size_t>(10, 5000), 3);
  const ClassHistogram histogram =
      plan_dirichlet(labels, 10, 10, 20, 5).class_histogram(labels, 10);
  const auto distance = [&](std::size_t a, std::size_t b) {
    double sum = 0;
    for (std::size_t c = 0; c < 10; ++c)
      sum += std::abs(static_cast<double>(histogram[a][c]) - static_cast<double>(histogram[b][c]));
    return sum;
  };
  double same_place = 0, other_place = 0;
  for (std::size_t rank = 0; rank < 10; ++rank) {
    same_place += distance(rank, rank + 10);
    other_place += distance(rank, 10 + (rank + 1) % 10);
  }
  CHECK(same_place > 0.5 * other_place);
}

TEST_CASE("a set that cannot be divided is an error that names the key", "[dirichlet]") {
  // Two classes that are not split cannot be divided among ten ranks.
  const std::vector<int> labels = shuffled_labels({500, 500}, 3);
  CHECK_THAT(eqt::test::refusal(Kind::usage, [&] { plan_dirichlet(labels, 2, 1e-6, 10, 5); }),
             Catch::Matchers::ContainsSubstring("data.partition.alpha") &&
                 Catch::Matchers::ContainsSubstring("10 ranks") &&
                 Catch::Matchers::ContainsSubstring("raise"));
}

TEST_CASE("with more ranks than samples no sample is used", "[dirichlet]") {
  const PartitionPlan plan = plan_dirichlet(std::vector<int>{0, 1, 0}, 2, 1, 4, 5);
  CHECK(plan.smallest_shard() == 0);
  CHECK(plan.leftover_samples == 3);
}
