// SPDX-License-Identifier: Apache-2.0
// Labels like those of real data sets, and the properties of every partition.

#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/random.hpp"
#include "data/partition_plan.hpp"
#include "support/catch.hpp"

namespace eqt::data::test {

/// `sizes[c]` samples of each class c, in random order.
inline std::vector<int> shuffled_labels(const std::vector<std::size_t>& sizes, std::uint64_t seed) {
  std::vector<int> sorted;
  for (std::size_t c = 0; c < sizes.size(); ++c)
    sorted.insert(sorted.end(), sizes[c], static_cast<int>(c));
  std::vector<int> labels;
  for (const std::size_t i : random_permutation({.run_seed = seed}, sorted.size()))
    labels.push_back(sorted[i]);
  return labels;
}

/// CIFAR-10's training set: ten classes of 5000.
inline std::vector<int> cifar10_labels() {
  return shuffled_labels(std::vector<std::size_t>(10, 5000), 77);
}

/// No sample is used twice, and shards and leftover samples are the whole set.
inline void require_no_sample_twice(const PartitionPlan& plan, std::size_t samples, int ranks) {
  REQUIRE(plan.shards.size() == static_cast<std::size_t>(ranks));
  std::vector<int> uses(samples, 0);
  std::size_t used = 0;
  for (const auto& shard : plan.shards) {
    for (const std::size_t sample : shard) {
      REQUIRE(sample < samples);
      ++uses[sample];
      ++used;
    }
  }
  REQUIRE(std::count_if(uses.begin(), uses.end(), [](int n) { return n > 1; }) == 0);
  REQUIRE(used + plan.leftover_samples == samples);
}

}  // namespace eqt::data::test
