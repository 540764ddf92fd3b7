// SPDX-License-Identifier: Apache-2.0
// One process that plays the ranks of a job in turn.

#pragma once

#include <memory>
#include <vector>

#include "codec/compressor.hpp"
#include "collective/memory.hpp"
#include "collective/worker_mean.hpp"
#include "comm/communicator.hpp"
#include "config/run_config.hpp"
#include "core/layout.hpp"
#include "data/dataset.hpp"
#include "data/loader.hpp"
#include "data/partition.hpp"
#include "model/replica.hpp"
#include "pipeline/plan.hpp"
#include "sync/simulated_averaging.hpp"
#include "train/workers.hpp"

namespace eqt::setup {

/// Owns what each worker has for itself, in the order in which parts depend on each other.
struct Simulation {
  std::vector<std::unique_ptr<data::Partition>> partitions;  // by worker
  std::vector<std::unique_ptr<data::BatchLoader>> batches;   // likewise
  std::unique_ptr<train::Workers> workers;
  std::vector<std::unique_ptr<collective::GradientMemory>> memories;  // likewise; may be null
  std::unique_ptr<collective::WorkerMean> mean;

  int count() const { return static_cast<int>(batches.size()); }
};

/// Requires that one process can play `workers` ranks of a run with this config.
/// @throws Error{usage}: which key stands in the way, or that there are several processes
void require_simulable(const config::RunConfig& config, int workers,
                       const comm::Communicator& comm);

/// The workers' loaders over what each visits. Keeps a reference to the set.
/// @param options by worker
std::unique_ptr<Simulation> make_simulation(
    std::vector<std::unique_ptr<data::Partition>> partitions, const data::Dataset& set,
    const std::vector<data::BatchLoader::Options>& options);

/// All workers begin with what the replica has. Keeps a reference.
void build_workers(model::Replica& replica, Simulation& simulation);

/// Keeps references to all but the config.
std::unique_ptr<sync::Synchronizer> build_simulated_averaging(
    const config::RunConfig& config, codec::Compressor& compressor,
    std::vector<pipeline::FusionBucket> plan, model::Replica& replica,
    const sync::GradientAveragingOptions& options, Simulation& simulation);

}  // namespace eqt::setup
