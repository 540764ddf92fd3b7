// SPDX-License-Identifier: Apache-2.0
#include "setup/build_data.hpp"

#include <cstddef>
#include <utility>
#include <vector>

#include "core/units.hpp"
#include "data/length_buckets.hpp"
#include "setup/build_partition.hpp"
#include "setup/build_text.hpp"

namespace eqt::setup {
namespace {

/// Batches of a set of texts have texts of about the same length.
std::unique_ptr<data::Partition> in_buckets(const config::RunConfig& config,
                                            const data::Dataset& set,
                                            std::unique_ptr<data::Partition> partition) {
  const bool differ = set.size() > 0 && set.length(0) > 0;
  if (!differ || !config.data.bucket_by_length) return partition;
  return std::make_unique<data::LengthBuckets>(std::move(partition), set, config.train.batch_size,
                                               config.seed);
}

void build_batches(const config::RunConfig& config, const comm::Communicator& comm, int simulate,
                   data::PartitionPlan plan, DataParts& parts) {
  const data::BatchLoader::Options options = {
      .batch_size = config.train.batch_size,
      .batches_per_epoch = parts.steps_per_epoch * config.train.accumulate,
      .augment = config.data.augment,
      .seed = config.seed,
      .threads = config.data.loader_threads};
  const std::size_t samples = parts.sets.train->size();
  if (simulate > 0) {
    std::vector<std::unique_ptr<data::Partition>> partitions;
    for (int w = 0; w < simulate; ++w)
      partitions.push_back(
          in_buckets(config, *parts.sets.train, make_partition(config, plan, samples, w)));
    parts.simulation = make_simulation(std::move(partitions), *parts.sets.train, options);
    return;
  }
  parts.partition =
      in_buckets(config, *parts.sets.train, make_partition(config, plan, samples, comm.rank()));
  parts.batches = std::make_unique<data::BatchLoader>(*parts.sets.train, *parts.partition, options);
}

}  // namespace

data::DatasetOptions dataset_options(const config::RunConfig& config) {
  return {.set = config.data.name,
          .path = config.data.path,
          .limit_train = config.data.limit_train,
          .limit_test = config.data.limit_test,
          .seed = config.seed,
          .target = config.task.kind->target,
          .pictures = {.size = config.data.image_size,
                       .channels = config.data.channels,
                       .crop = config.data.crop,
                       .mean = config.data.mean,
                       .deviation = config.data.deviation,
                       .test_fraction = config.data.test_fraction,
                       .skip_limit = config.data.skip_limit,
                       .memory_bytes = config.data.memory_budget_mib * kMib},
          .text = text_options(config)};
}

DataParts build_data(const config::RunConfig& config, const comm::Communicator& comm,
                     int simulate) {
  DataParts parts;
  parts.sets = data::open_dataset(dataset_options(config));
  const std::vector<int> labels = data::labels_of(*parts.sets.train);
  const int classes = parts.sets.train->classes();
  const int ranks = simulate > 0 ? simulate : comm.size();
  data::PartitionPlan plan = plan_partition(config, labels, classes, ranks);
  parts.partition_record = describe_partition(config.data.partition, plan, labels, classes);
  parts.shards_fingerprint = plan.fingerprint();
  parts.steps_per_epoch = plan.smallest_shard() / config.train.samples_per_step();
  build_batches(config, comm, simulate, std::move(plan), parts);
  return parts;
}

}  // namespace eqt::setup
