// SPDX-License-Identifier: Apache-2.0
#include "setup/build_data.hpp"

#include <algorithm>
#include <numeric>
#include <span>
#include <utility>
#include <variant>

#include "config/keys_read.hpp"
#include "core/error.hpp"
#include "data/partition.hpp"
#include "data/partition_plan.hpp"
#include "data/wrapped_sets.hpp"
#include "metrics/decisions.hpp"
#include "setup/look_at_data.hpp"

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

/// The shards of all ranks, each with at least one batch; with data.partition.reshuffle those of
/// the first epoch, whose sizes are those of every epoch.
/// @param labels of the training set, each in [0, classes); all 0 if there are no classes
/// @throws Error{usage} if there is none such; the same on every rank
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

/// The samples that a rank visits, epoch by epoch; takes its shard out of the plan.
/// @param samples of the training set
std::unique_ptr<data::Partition> make_partition(const config::RunConfig& config,
                                                data::PartitionPlan& plan, std::size_t samples,
                                                int rank) {
  const auto ranks = static_cast<int>(plan.shards.size());
  if (config.data.partition.reshuffle)
    return std::make_unique<data::ReshuffledPartition>(samples, rank, ranks, config.seed);
  return std::make_unique<data::ShardPartition>(
      std::move(plan.shards.at(static_cast<std::size_t>(rank))), rank, config.seed);
}

/// Returns what a run records about its shards.
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

std::vector<std::size_t> first_batches(const config::RunConfig& config, int ranks) {
  const config::RunConfig::Train& train = config.train;
  if (const auto* const list = std::get_if<std::vector<std::uint64_t>>(&train.batch_sizes)) {
    if (std::ssize(*list) != ranks)
      fail(Kind::usage,
           "train.batch_sizes: expected {} numbers, one for each rank, found {}; start as many "
           "ranks as it has numbers",
           ranks, list->size());
    return {list->begin(), list->end()};
  }
  return std::vector<std::size_t>(static_cast<std::size_t>(ranks), train.batch_size);
}

std::size_t samples_of_all_ranks(const config::RunConfig& config, int ranks) {
  if (!config.train.has_batches_by_rank())
    return config.train.batch_size * static_cast<std::size_t>(ranks);
  const std::vector<std::size_t> batches = first_batches(config, ranks);
  return std::accumulate(batches.begin(), batches.end(), std::size_t{0});
}

std::vector<double> batch_weights(const std::vector<std::size_t>& batches) {
  std::vector<double> weights;
  for (Rank rank = 0; rank < std::ssize(batches); ++rank)
    weights.push_back(train::weight_of(batches, rank));
  return weights;
}

std::unique_ptr<train::BatchBalancer> build_balancer(const config::RunConfig& config,
                                                     comm::Communicator& comm) {
  if (!config.train.has_batches_by_rank()) return nullptr;
  train::BalanceOptions options = {
      .batches = first_batches(config, comm.size()),
      .least = config.train.batch_least,
      .every = config.train.balances() ? config.train.balance_every : 0,
      .own_samples = has_local_data(config),
      .weighs = config.data.partition.epoch != data::LocalEpoch::weighted};
  if (!config.train.replay.empty())
    options.replay.emplace(metrics::read_decisions(config.train.replay, train::kBatchDecisions));
  return std::make_unique<train::BatchBalancer>(comm, std::move(options));
}

}  // namespace eqt::setup
