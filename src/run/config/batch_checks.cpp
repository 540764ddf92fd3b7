// SPDX-License-Identifier: Apache-2.0
#include "config/batch_checks.hpp"

#include "core/error.hpp"
#include "data/partition_plan.hpp"
#include "sync/algorithm.hpp"

namespace eqt::config {

void check_batches(const RunConfig& config, const codec::Properties& compressor,
                   const std::string& origin) {
  const RunConfig::Train& train = config.train;
  if (!train.balances() && config.synchronization.quorum == 0 && !train.replay.empty())
    fail(Kind::usage,
         "{}: expected train.batch_sizes \"auto\" or synchronization.quorum with train.replay, "
         "which repeats decisions, found a run that decides nothing; leave train.replay out",
         origin);
  if (!train.has_batches_by_rank()) return;
  if (train.balances() && train.batch_size < train.batch_least)
    fail(Kind::usage,
         "{}: expected train.batch_size, the mean batch of all ranks with train.batch_sizes "
         "\"auto\", of at least train.batch_least, {}, found {}; raise it, or lower "
         "train.batch_least",
         origin, train.batch_least, train.batch_size);
  const sync::AlgorithmRow& algorithm = *config.synchronization.algorithm;
  if (!algorithm.averages_gradients || algorithm.lazy)
    fail(Kind::usage,
         "{}: expected synchronization.algorithm \"allreduce\" with train.batch_sizes, whose "
         "gradients are weighted by batch, found \"{}\"; set one of the two to its default",
         origin, algorithm.name);
  if (compressor.votes)
    fail(
        Kind::usage,
        "{}: expected a compressor that keeps the size of a gradient with train.batch_sizes, found "
        "\"{}\", whose votes have no weight; take another compressor, such as ef-signsgd",
        origin, config.compressor.name->name);
  const RunConfig::Data::Partition& partition = config.data.partition;
  if (train.is_emulated() || partition.kind == data::kLocalPartition || partition.reshuffle) return;
  fail(Kind::usage,
       "{}: expected data.partition.kind \"iid\" with data.partition.reshuffle true, or \"local\", "
       "for train.batch_sizes, which deals one permutation an epoch to all ranks, found kind "
       "\"{}\"{}; leave one of them out",
       origin, partition.kind->name, partition.kind->reshuffles ? " without reshuffling" : "");
}

}  // namespace eqt::config
