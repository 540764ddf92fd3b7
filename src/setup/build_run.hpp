// From a RunConfig to the parts of a run: the only place that knows every concrete class.

#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "codec/compressor.hpp"
#include "collective/adaptation.hpp"
#include "collective/collective.hpp"
#include "collective/memory.hpp"
#include "comm/communicator.hpp"
#include "config/facts.hpp"
#include "config/run_config.hpp"
#include "data/dataset.hpp"
#include "data/loader.hpp"
#include "data/partition.hpp"
#include "metrics/records.hpp"
#include "metrics/sink.hpp"
#include "model/replica.hpp"
#include "optim/optimizer.hpp"
#include "optim/schedule.hpp"
#include "pipeline/plan.hpp"
#include "setup/build_gossip.hpp"
#include "setup/build_simulation.hpp"
#include "setup/choose_by_cost.hpp"
#include "train/divergence.hpp"
#include "train/synchronizer.hpp"
#include "train/trainer.hpp"

namespace eqt::setup {

/// Owns the parts, in the order in which they depend on each other.
struct Run {
  data::DatasetPair data;  // none in an emulated run, which has no partition and no batches either
  config::Facts data_facts;  // likewise
  std::unique_ptr<model::Replica> replica;
  std::unique_ptr<data::Partition> partition;
  metrics::PartitionRecord partition_record;
  std::uint64_t shards_fingerprint = 0;        // of all ranks' shards; 0 in an emulated run
  std::unique_ptr<data::BatchLoader> batches;  // null: those of the simulation, or none
  std::unique_ptr<Simulation> simulation;      // null: every rank is a process
  std::unique_ptr<codec::Compressor> compressor;
  std::unique_ptr<collective::GradientMemory> memory;  // may be null
  std::unique_ptr<collective::Adaptation> adaptation;  // null: the compressor stays as it is
  std::unique_ptr<collective::Collective> collective;  // null: algorithm none
  std::vector<pipeline::FusionBucket> buckets;         // of gossip, which keeps references to them
  std::unique_ptr<Gossip> gossip;                      // null: no algorithm that gossips
  std::unique_ptr<gossip::Direction> direction;        // of local-sgd; may be null
  std::unique_ptr<train::Synchronizer> synchronizer;
  std::unique_ptr<optim::Optimizer> optimizer;
  std::unique_ptr<optim::Schedule> schedule;
  std::optional<CostedChoice> choice;  // of the collective, if `auto` had one to make
  std::unique_ptr<train::Divergence> divergence;
  train::Plan plan;
  int threads = 1;

  std::string collective_name() const;
};

/// Where a run that is resumed stands, as its ranks counted.
struct SavedPosition {
  StepId step = 0;            // completed
  std::uint64_t epoch = 0;    // of the next batch, from 0
  std::uint64_t batch = 0;    // likewise
  std::uint64_t batches = 1;  // of an epoch
};

/// `config` with the collective that `auto` chose or for a simulation, so that it
/// repeats this run.
config::RunConfig settled_config(const config::RunConfig& config, const Run& run);

/// @param communication_thread whether MPI admits one
/// @param fault what shall go wrong, for tests
/// @param from where it goes on; nothing: it begins
/// @param simulate ranks that this process plays, if require_simulable() lets it; 0: it is one
/// @throws Error{usage}, Error{data}; the same on every rank or agreed by all. Collective.
std::unique_ptr<Run> build_run(const config::RunConfig& config, comm::Communicator& comm,
                               bool communication_thread,
                               const std::optional<train::Fault>& fault = {},
                               const std::optional<SavedPosition>& from = {}, int simulate = 0);

/// Threads for this rank: its share of the host's cores, or of what it was bound to if that is
/// less; config.threads_per_rank if that is set. Who plays ranks in turn computes with as many
/// threads as one of them on this host: another number would round otherwise.
int threads_for(const config::RunConfig& config, const comm::Communicator& comm, int simulate = 0);

/// What the run record says about this run.
metrics::RunRecord describe(const config::RunConfig& config, const Run& run,
                            const comm::Communicator& comm);

}  // namespace eqt::setup
