// SPDX-License-Identifier: Apache-2.0
#include "setup/build_partition.hpp"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "config/keys_read.hpp"
#include "core/error.hpp"

namespace eqt::setup {
namespace {

data::PartitionPlan plan_of_kind(const config::RunConfig& config, std::span<const int> labels,
                                 int classes, int ranks) {
  const config::RunConfig::Data::Partition& partition = config.data.partition;
  return partition.kind->plan(labels, classes, ranks,
                              {.skew = partition.skew,
                               .alpha = partition.alpha,
                               .reshuffle = partition.reshuffle,
                               .seed = config.seed});
}

}  // namespace

data::PartitionPlan plan_partition(const config::RunConfig& config, std::span<const int> labels,
                                   int classes, int ranks) {
  const std::size_t samples = labels.size();
  if (static_cast<std::size_t>(ranks) > samples) {
    fail(Kind::usage,
         "{} ranks for {} training samples: expected at least one sample a rank; start "
         "fewer ranks or raise data.limit_train",
         ranks, samples);
  }
  if (config.data.partition.kind->by_class && classes == 0) {
    fail(
        Kind::usage,
        "data.partition.kind \"{}\": expected a data set whose samples have classes, found {}; set "
        "it to \"{}\"",
        config.data.partition.kind->name, config.data.name->name, data::kIidPartition.name);
  }
  data::PartitionPlan plan = plan_of_kind(config, labels, classes, ranks);
  const std::size_t smallest = plan.smallest_shard();
  if (smallest == 0) {
    fail(Kind::usage,
         "data.partition.kind \"{}\": expected a sample for every rank, found {} samples of {} "
         "classes too few for {} ranks, since parts of a sample are left over; start fewer ranks "
         "or raise data.limit_train",
         config.data.partition.kind->name, samples, classes, ranks);
  }
  if (config.train.samples_per_step() > smallest) {
    fail(Kind::usage,
         "train.batch_size times train.accumulate: expected at most {} (the samples of a rank: {} "
         "over {} ranks, "
         "data.partition.kind \"{}\"), found {}",
         smallest, samples, ranks, config.data.partition.kind->name,
         config.train.samples_per_step());
  }
  return plan;
}

std::unique_ptr<data::Partition> make_partition(const config::RunConfig& config,
                                                data::PartitionPlan& plan, std::size_t samples,
                                                int rank) {
  const auto ranks = static_cast<int>(plan.shards.size());
  if (config.data.partition.reshuffle)
    return std::make_unique<data::ReshuffledPartition>(samples, rank, ranks, config.seed);
  return std::make_unique<data::ShardPartition>(
      std::move(plan.shards.at(static_cast<std::size_t>(rank))), rank, config.seed);
}

metrics::PartitionRecord describe_partition(const config::RunConfig::Data::Partition& config,
                                            const data::PartitionPlan& plan,
                                            std::span<const int> labels, int classes) {
  metrics::PartitionRecord record;
  record.kind = config.kind->name;
  if (config.kind->reshuffles) record.reshuffle = config.reshuffle;
  if (config::reads_key(*config.kind, "skew")) record.skew = config.skew;
  if (config::reads_key(*config.kind, "alpha")) record.alpha = config.alpha;
  record.leftover_samples = plan.leftover_samples;
  if (classes > 0) record.class_histogram = plan.class_histogram(labels, classes);
  return record;
}

}  // namespace eqt::setup
