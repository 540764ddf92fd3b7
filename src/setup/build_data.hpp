// SPDX-License-Identifier: Apache-2.0
// From config keys to the data of a run: sets, shards, and the threads that load batches.

#pragma once

#include <cstdint>
#include <memory>

#include "comm/communicator.hpp"
#include "config/facts.hpp"
#include "config/run_config.hpp"
#include "data/dataset.hpp"
#include "data/loader.hpp"
#include "data/partition.hpp"
#include "metrics/records.hpp"
#include "setup/build_simulation.hpp"

namespace eqt::setup {

/// Which data set a config means, and how it is read.
data::DatasetOptions dataset_options(const config::RunConfig& config);

/// Owns the parts, in the order in which they depend on each other. An emulated run has none.
struct DataParts {
  data::DatasetPair sets;
  config::Facts facts;  // of the sets, once ranks have compared them
  metrics::PartitionRecord partition_record;
  std::uint64_t shards_fingerprint = 0;  // of all ranks' shards
  std::uint64_t steps_per_epoch = 1;
  std::unique_ptr<data::Partition> partition;
  std::unique_ptr<data::BatchLoader> batches;
  std::unique_ptr<Simulation> simulation;  // null: every rank is a process; else in place of the
                                           // partition and the batches
};

/// @param simulate ranks that this process plays; 0: it is one
/// @throws Error{usage}, Error{data}
DataParts build_data(const config::RunConfig& config, const comm::Communicator& comm, int simulate);

}  // namespace eqt::setup
