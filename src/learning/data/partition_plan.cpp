// SPDX-License-Identifier: Apache-2.0
#include "data/partition_plan.hpp"

#include <algorithm>
#include <array>

#include "core/error.hpp"
#include "core/random.hpp"
#include "data/partition.hpp"

namespace eqt::data {

std::size_t PartitionPlan::smallest_shard() const {
  std::size_t smallest = shards.empty() ? 0 : shards.front().size();
  for (const auto& shard : shards) smallest = std::min(smallest, shard.size());
  return smallest;
}

std::uint64_t PartitionPlan::fingerprint() const {
  std::uint64_t hash = mix64(shards.size());
  for (const auto& shard : shards) {
    hash = mix64(hash ^ shard.size());
    for (const std::size_t sample : shard) hash = mix64(hash ^ sample);
  }
  return hash;
}

ClassHistogram PartitionPlan::class_histogram(std::span<const int> labels, int classes) const {
  ClassHistogram histogram(shards.size(),
                           std::vector<std::uint64_t>(static_cast<std::size_t>(classes)));
  for (std::size_t rank = 0; rank < shards.size(); ++rank) {
    for (const std::size_t sample : shards[rank]) {
      ++histogram[rank].at(static_cast<std::size_t>(labels[sample]));
    }
  }
  return histogram;
}

std::vector<std::vector<std::size_t>> samples_by_class(std::span<const int> labels, int classes) {
  std::vector<std::vector<std::size_t>> members(static_cast<std::size_t>(classes));
  for (std::size_t sample = 0; sample < labels.size(); ++sample) {
    const int label = labels[sample];
    EQT_CHECK(label >= 0 && label < classes, "label {} of {} classes", label, classes);
    members[static_cast<std::size_t>(label)].push_back(sample);
  }
  return members;
}

void require_sample_each(std::size_t samples, int ranks) {
  if (static_cast<std::size_t>(ranks) <= samples) return;
  fail(Kind::usage,
       "expected at least one training sample per rank, found {} samples for {} ranks; start "
       "fewer ranks or raise data.limit_train",
       samples, ranks);
}

PartitionPlan plan_reshuffled(std::size_t samples, int ranks, std::uint64_t seed) {
  PartitionPlan plan;
  for (int rank = 0; rank < ranks; ++rank)
    plan.shards.push_back(ReshuffledPartition(samples, rank, ranks, seed).order(0));
  return plan;
}

PartitionPlan plan_iid(std::size_t samples, int ranks, std::uint64_t seed) {
  EQT_CHECK(ranks >= 1, "{} ranks", ranks);
  require_sample_each(samples, ranks);
  const auto all = random_permutation(make_key(seed, 0, 0, RandomPurpose::partition), samples);
  PartitionPlan plan;
  for (int rank = 0; rank < ranks; ++rank) {
    const Range range = even_share(samples, rank, ranks);
    plan.shards.emplace_back(all.begin() + static_cast<std::ptrdiff_t>(range.begin),
                             all.begin() + static_cast<std::ptrdiff_t>(range.end));
  }
  return plan;
}

const PartitionRow kIidPartition = {
    .name = "iid",
    .about = "a seeded permutation cut into equal shards",
    .plan =
        [](std::span<const int> labels, int, int ranks, const PartitionOptions& options) {
          return options.reshuffle ? plan_reshuffled(labels.size(), ranks, options.seed)
                                   : plan_iid(labels.size(), ranks, options.seed);
        },
    .reshuffles = true};

const Catalogue<PartitionRow>& PartitionRow::all() {
  static const Catalogue<PartitionRow> rows = {kIidPartition, kSkewPartition, kDirichletPartition,
                                               kLocalPartition};
  return rows;
}

namespace {

constexpr std::array<Named<LocalEpoch>, 3> kEpochs = {{
    {LocalEpoch::smallest, "smallest",
     "as many steps as the smallest set has; other ranks visit the rest of theirs in later epochs"},
    {LocalEpoch::largest, "largest", "as many as the largest set has; other ranks repeat theirs"},
    {LocalEpoch::weighted, "weighted",
     "as many as sets have on average; a rank's loss counts by the size of its set, so that each "
     "sample of all ranks counts equally"},
}};

constexpr std::array<Named<LocalTest>, 2> kTests = {{
    {LocalTest::own, "local",
     "each rank's own test set; figures are those of all samples together"},
    {LocalTest::first, "rank0", "rank 0's, which it sends to all others once"},
}};

constexpr std::array<std::string_view, 2> kKeys = {"epoch", "test"};

}  // namespace

std::span<const Named<LocalEpoch>> names_of(LocalEpoch) { return kEpochs; }
std::span<const Named<LocalTest>> names_of(LocalTest) { return kTests; }

/// Data stay where they are: every rank trains on what lies under data.path on its own host.
const PartitionRow kLocalPartition = {
    .name = "local",
    .about =
        "nothing is divided: every rank reads its own set from data.path on its own host; "
        "ranks agree on the classes by name",
    .plan = nullptr,
    .keys = kKeys};

}  // namespace eqt::data
