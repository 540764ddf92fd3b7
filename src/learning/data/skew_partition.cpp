// SPDX-License-Identifier: Apache-2.0
// Degree of skew: a part of each class is assigned by class, the rest at random.

#include <algorithm>

#include "core/error.hpp"
#include "core/random.hpp"
#include "data/partition_plan.hpp"

namespace eqt::data {
namespace {

using Samples = std::vector<std::size_t>;

/// A list from whose front samples are taken.
class SampleQueue {
 public:
  explicit SampleQueue(Samples samples) : samples_(std::move(samples)) {}

  /// Moves the next `count` samples, or as many as there are, to the end of `shard`.
  void give(std::size_t count, Samples& shard) {
    const std::size_t end = used_ + std::min(count, samples_.size() - used_);
    for (; used_ < end; ++used_) shard.push_back(samples_[used_]);
  }
  std::size_t left() const { return samples_.size() - used_; }

 private:
  Samples samples_;
  std::size_t used_ = 0;
};

/// The authors' code shuffles with Python's random.Random(seed). Ours is another permutation, so
/// ranks have other samples of a class, but the same numbers of them from both lists.
Samples shuffled(const Samples& samples, std::uint64_t seed) {
  Samples order =
      random_permutation(make_key(seed, 0, 0, RandomPurpose::partition), samples.size());
  for (std::size_t& place : order) place = samples[place];
  return order;
}

}  // namespace

PartitionPlan plan_skew(std::span<const int> labels, int classes, double skew, int ranks,
                        std::uint64_t seed) {
  EQT_CHECK(ranks >= 1 && skew >= 0 && skew <= 1, "skew {} for {} ranks", skew, ranks);
  Samples in_order, at_random;
  for (const Samples& members : samples_by_class(labels, classes)) {
    const auto kept =
        static_cast<std::ptrdiff_t>(skew * static_cast<double>(members.size()));  // truncated
    in_order.insert(in_order.end(), members.begin(), members.begin() + kept);
    at_random.insert(at_random.end(), members.begin() + kept, members.end());
  }
  SampleQueue sorted(std::move(in_order)), random(shuffled(at_random, seed));

  const double share = 1.0 / ranks * static_cast<double>(labels.size());
  const auto from_sorted = static_cast<std::size_t>(share * skew);
  const auto from_random = static_cast<std::size_t>(share * (1 - skew));
  PartitionPlan plan;
  plan.shards.resize(static_cast<std::size_t>(ranks));
  for (Samples& shard : plan.shards) {
    sorted.give(from_sorted, shard);
    random.give(from_random, shard);
  }
  plan.leftover_samples = sorted.left() + random.left();
  return plan;
}

namespace {
constexpr std::string_view kSkewKeys[] = {"skew"};
}

const PartitionRow kSkewPartition = {
    .name = "skew",
    .about = "a part of each class by class, the rest at random (data.partition.skew)",
    .plan =
        [](std::span<const int> labels, int classes, int ranks, const PartitionOptions& options) {
          return plan_skew(labels, classes, options.skew, ranks, options.seed);
        },
    .keys = kSkewKeys,
    .by_class = true};

}  // namespace eqt::data
