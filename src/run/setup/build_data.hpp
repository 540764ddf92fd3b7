// SPDX-License-Identifier: Apache-2.0
// Config keys become the data of a run: sets, shards, the size of each rank's batches, and the
// threads that load them.

#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "comm/communicator.hpp"
#include "config/facts.hpp"
#include "config/run_config.hpp"
#include "data/dataset.hpp"
#include "data/loader.hpp"
#include "data/partition.hpp"
#include "metrics/records.hpp"
#include "setup/build_simulation.hpp"
#include "setup/local_data.hpp"
#include "setup/look_at_data.hpp"
#include "train/batch_balancer.hpp"

namespace eqt::setup {

/// Owns the parts, in the order in which they depend on each other. An emulated run has none.
struct DataParts {
  std::vector<data::DatasetPair> own;  // by worker, if each has its own; `sets` consists of them
  data::DatasetPair sets;
  std::optional<LocalData> local;                     // nothing: all ranks have the same sets
  std::vector<std::uint64_t> class_counts;            // (classes) training samples of all ranks
  std::uint64_t train_samples = 0, test_samples = 0;  // of all ranks
  std::vector<double> loss_weights;                   // by worker, or of this rank alone; empty: 1
  config::Facts facts;                                // of the sets, once ranks have compared them
  metrics::PartitionRecord partition_record;
  std::uint64_t shards_fingerprint = 0;  // of all ranks' shards
  std::uint64_t steps_per_epoch = 1;
  std::unique_ptr<data::Partition> partition;
  std::unique_ptr<data::BatchLoader> batches;
  std::unique_ptr<Simulation> simulation;  // null: every rank is a process; else in place of the
                                           // partition and the batches
};

/// This rank's sets: one, or one for each of the ranks that this process plays if they have their
/// own.
/// @param simulate ranks that this process plays; 0: it is one
/// @throws Error{usage}, Error{data}
std::vector<data::DatasetPair> open_sets(const config::RunConfig& config,
                                         const comm::Communicator& comm, int simulate);

/// @param own of open_sets()
/// @param local of agree_on_local_data(), if ranks have their own sets
/// @throws Error{usage}
DataParts build_data(const config::RunConfig& config, const comm::Communicator& comm, int simulate,
                     std::vector<data::DatasetPair> own, std::optional<LocalData> local);

/// Samples per batch by rank, with which the run begins.
/// @pre config.train.has_batches_by_rank()
/// @throws Error{usage}: a list of another length
std::vector<std::size_t> first_batches(const config::RunConfig& config, int ranks);

/// Samples of a batch of all ranks.
std::size_t samples_of_all_ranks(const config::RunConfig& config, int ranks);

/// n b_i / B by rank.
std::vector<double> batch_weights(const std::vector<std::size_t>& batches);

/// Null if all ranks have batches of the same size. @throws Error{usage}, Error{data}
std::unique_ptr<train::BatchBalancer> build_balancer(const config::RunConfig& config,
                                                     comm::Communicator& comm);

}  // namespace eqt::setup
