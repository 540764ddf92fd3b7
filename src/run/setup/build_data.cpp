// SPDX-License-Identifier: Apache-2.0
#include "setup/build_data.hpp"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <utility>
#include <vector>

#include "core/error.hpp"
#include "data/partition.hpp"
#include "data/wrapped_sets.hpp"
#include "setup/build_batches.hpp"
#include "setup/build_partition.hpp"
#include "setup/look_at_data.hpp"

namespace eqt::setup {
namespace {

/// Batches of a set of texts have texts of about the same length.
std::unique_ptr<data::Partition> in_buckets(const config::RunConfig& config,
                                            const data::Dataset& set, std::size_t batch_size,
                                            std::unique_ptr<data::Partition> partition) {
  const bool differ = set.size() > 0 && set.length(0) > 0;
  if (!differ || !config.data.bucket_by_length) return partition;
  return std::make_unique<data::LengthBuckets>(std::move(partition), set, batch_size, config.seed);
}

using Partitions = std::vector<std::unique_ptr<data::Partition>>;

std::uint64_t sum_of(const std::vector<std::uint64_t>& counts) {
  return std::accumulate(counts.begin(), counts.end(), std::uint64_t{0});
}

/// @param partitions of all workers, or of this rank
/// @param deals the samples of a batch, by partition
void build_batches(const config::RunConfig& config, int simulate, Partitions partitions,
                   const std::vector<data::BatchLoader::Deal>& deals, DataParts& parts) {
  std::vector<data::BatchLoader::Options> options;
  for (std::size_t i = 0; i < partitions.size(); ++i) {
    options.push_back({.batch_size = deals[i].batch_size,
                       .batches_per_epoch = parts.steps_per_epoch * config.train.accumulate,
                       .augment = config.data.augment,
                       .seed = config.seed,
                       .threads = config.data.loader_threads,
                       .share = deals[i].share});
    partitions[i] =
        in_buckets(config, *parts.sets.train, deals[i].batch_size, std::move(partitions[i]));
  }
  if (simulate > 0) {
    parts.simulation = make_simulation(std::move(partitions), *parts.sets.train, options);
    return;
  }
  parts.partition = std::move(partitions.front());
  parts.batches =
      std::make_unique<data::BatchLoader>(*parts.sets.train, *parts.partition, options.front());
}

void count_samples(const std::vector<int>& labels, DataParts& parts) {
  const int classes = parts.sets.train->classes();
  parts.train_samples = parts.sets.train->size();
  parts.test_samples = parts.sets.test->size();
  parts.class_counts.resize(static_cast<std::size_t>(classes));
  if (classes > 0)
    for (const int label : labels) ++parts.class_counts.at(static_cast<std::size_t>(label));
}

/// All ranks share one set, and each batch of all ranks is dealt to them: step t has the samples
/// [t B, (t + 1) B) of the epoch's permutation, of which each rank takes its batch.
void deal(const config::RunConfig& config, const comm::Communicator& comm, int simulate,
          DataParts& parts) {
  const int ranks = simulate > 0 ? simulate : comm.size();
  const std::vector<std::size_t> batches = first_batches(config, ranks);
  const std::size_t together = samples_of_all_ranks(config, ranks);
  const std::size_t samples = parts.sets.train->size();
  if (together * config.train.accumulate > samples)
    fail(Kind::usage,
         "train.batch_sizes times train.accumulate: expected at most the {} training samples for "
         "all ranks together, found {} for {} ranks; take smaller batches",
         samples, together * config.train.accumulate, ranks);
  parts.partition_record.kind = config.data.partition.kind->name;
  parts.partition_record.reshuffle = true;
  parts.partition_record.leftover_samples = samples % (together * config.train.accumulate);
  parts.steps_per_epoch = samples / (together * config.train.accumulate);
  count_samples(data::labels_of(*parts.sets.train), parts);
  Partitions partitions;
  std::vector<data::BatchLoader::Deal> deals;
  const Rank first = simulate > 0 ? 0 : comm.rank();
  for (Rank rank = first; rank < first + std::max(1, simulate); ++rank) {
    partitions.push_back(std::make_unique<data::ReshuffledPartition>(samples, 0, 1, config.seed));
    deals.push_back({.batch_size = together, .share = train::share_of(batches, rank)});
  }
  if (simulate > 0) parts.loss_weights = batch_weights(batches);
  build_batches(config, simulate, std::move(partitions), deals, parts);
}

/// All ranks share one set.
void divide(const config::RunConfig& config, const comm::Communicator& comm, int simulate,
            DataParts& parts) {
  const std::vector<int> labels = data::labels_of(*parts.sets.train);
  const int classes = parts.sets.train->classes();
  const int ranks = simulate > 0 ? simulate : comm.size();
  data::PartitionPlan plan = plan_partition(config, labels, classes, ranks);
  parts.partition_record = describe_partition(config.data.partition, plan, labels, classes);
  parts.shards_fingerprint = plan.fingerprint();
  parts.steps_per_epoch = plan.smallest_shard() / config.train.samples_per_step();
  count_samples(labels, parts);
  Partitions partitions;
  const Rank first = simulate > 0 ? 0 : comm.rank();
  for (Rank rank = first; rank < first + std::max(1, simulate); ++rank)
    partitions.push_back(make_partition(config, plan, labels.size(), rank));
  const std::size_t batch = config.train.batch_size;
  const std::vector<data::BatchLoader::Deal> deals(partitions.size(),
                                                   {.batch_size = batch, .share = {0, batch}});
  build_batches(config, simulate, std::move(partitions), deals, parts);
}

/// One set of the sets that workers have.
data::DatasetPair join(const std::vector<data::DatasetPair>& own, data::LocalTest test) {
  std::vector<const data::Dataset*> train, tests;
  std::vector<std::function<std::uint64_t()>> counts;
  for (const data::DatasetPair& pair : own) {
    train.push_back(pair.train.get());
    if (test == data::LocalTest::own || tests.empty()) tests.push_back(pair.test.get());
    if (pair.skipped) counts.push_back(pair.skipped);
  }
  std::function<std::uint64_t()> skipped;
  if (!counts.empty())
    skipped = [counts = std::move(counts)] {
      std::uint64_t sum = 0;
      for (const auto& count : counts) sum += count();
      return sum;
    };
  return {.train = data::joined(std::move(train)),
          .test = data::joined(std::move(tests)),
          .normalization = own.front().normalization,
          .class_names = own.front().class_names,
          .framing = own.front().framing,
          .texts = own.front().texts,
          .moments = own.front().moments,
          .standardize = own.front().standardize,
          .skipped = std::move(skipped),
          .columns = own.front().columns,
          .notes = own.front().notes};
}

/// Buckets of texts are as long as the batches, which may change.
void require_fixed_length(const config::RunConfig& config, const data::Dataset& set) {
  if (!config.data.bucket_by_length || set.size() == 0 || set.length(0) == 0) return;
  fail(Kind::usage,
       "train.batch_sizes: expected data.bucket_by_length false for texts with "
       "data.partition.kind \"{}\", found true; set it to false",
       config.data.partition.kind->name);
}

/// Every rank has a set of its own.
void take_own(const config::RunConfig& config, const comm::Communicator& comm, int simulate,
              DataParts& parts) {
  const LocalData& all = *parts.local;
  parts.partition_record = describe_local(config, all);
  parts.steps_per_epoch = local_steps_per_epoch(config, all);
  parts.train_samples = sum_of(all.train_samples);
  parts.test_samples = sum_of(all.test_samples);
  parts.class_counts.resize(all.class_names.size());
  for (const auto& counts : all.class_histogram)
    for (std::size_t c = 0; c < counts.size(); ++c) parts.class_counts[c] += counts[c];
  parts.loss_weights = loss_weights(config, all);
  std::vector<std::size_t> batches(all.train_samples.size(), config.train.batch_size);
  if (config.train.has_batches_by_rank()) {
    require_fixed_length(config, *parts.sets.train);
    batches = first_batches(config, static_cast<int>(batches.size()));
    // Otherwise ranks are weighted by their batches, processes by their balancers.
    if (simulate > 0 && config.data.partition.epoch != data::LocalEpoch::weighted)
      parts.loss_weights = batch_weights(batches);
  }
  Partitions partitions;
  std::vector<data::BatchLoader::Deal> deals;
  std::size_t begin = 0;
  const Rank first = simulate > 0 ? 0 : comm.rank();
  for (Rank rank = first; rank < first + std::max(1, simulate); ++rank) {
    const std::size_t end = begin + all.train_samples.at(static_cast<std::size_t>(rank));
    const std::size_t batch = batches.at(static_cast<std::size_t>(rank));
    const std::size_t length = parts.steps_per_epoch * batch * config.train.accumulate;
    partitions.push_back(
        std::make_unique<data::EndlessPartition>(begin, end, length, rank, config.seed));
    deals.push_back({.batch_size = batch, .share = {0, batch}});
    begin = end;
  }
  if (simulate == 0)
    parts.loss_weights = {parts.loss_weights.at(static_cast<std::size_t>(comm.rank()))};
  build_batches(config, simulate, std::move(partitions), deals, parts);
}

}  // namespace

std::vector<data::DatasetPair> open_sets(const config::RunConfig& config,
                                         const comm::Communicator& comm, int simulate) {
  const bool by_worker = simulate > 0 && has_local_data(config);
  const Rank first = simulate > 0 ? 0 : comm.rank();
  std::vector<data::DatasetPair> own;
  for (Rank rank = first; rank < first + (by_worker ? simulate : 1); ++rank)
    own.push_back(data::open_dataset(dataset_options(config, rank)));
  if (by_worker && !data::has_fixed_shapes(*own.front().train))
    fail(
        Kind::usage,
        "--simulate: expected samples of one shape with data.partition.kind \"{}\", found texts of "
        "several lengths; start the ranks by mpirun",
        config.data.partition.kind->name);
  return own;
}

DataParts build_data(const config::RunConfig& config, const comm::Communicator& comm, int simulate,
                     std::vector<data::DatasetPair> own, std::optional<LocalData> local) {
  DataParts parts;
  parts.local = std::move(local);
  if (!parts.local) {
    parts.sets = std::move(own.front());
    if (config.train.has_batches_by_rank()) {
      deal(config, comm, simulate, parts);
    } else {
      divide(config, comm, simulate, parts);
    }
    return parts;
  }
  if (simulate > 0) {
    parts.own = std::move(own);
    parts.sets = join(parts.own, config.data.partition.test);
  } else {
    parts.sets = std::move(own.front());
  }
  take_own(config, comm, simulate, parts);
  return parts;
}

}  // namespace eqt::setup
