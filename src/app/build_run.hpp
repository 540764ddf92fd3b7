// From a RunConfig to the parts of a run: the only place that knows every concrete class.

#pragma once

#include <memory>
#include <string>

#include "app/run_config.hpp"
#include "codec/compressor.hpp"
#include "collective/adaptation.hpp"
#include "collective/collective.hpp"
#include "collective/memory.hpp"
#include "comm/communicator.hpp"
#include "data/dataset.hpp"
#include "data/loader.hpp"
#include "data/partition.hpp"
#include "metrics/records.hpp"
#include "metrics/sink.hpp"
#include "model/replica.hpp"
#include "optim/optimizer.hpp"
#include "optim/schedule.hpp"
#include "train/synchronizer.hpp"
#include "train/trainer.hpp"

namespace eqt::app {

/// Owns the parts, in the order in which they depend on each other.
struct Run {
  data::DatasetPair data;  // none in an emulated run, which has no partition and no batches either
  std::unique_ptr<model::Replica> replica;
  std::unique_ptr<data::Partition> partition;
  std::unique_ptr<data::BatchLoader> batches;
  std::unique_ptr<codec::Compressor> compressor;
  std::unique_ptr<collective::GradientMemory> memory;  // may be null
  std::unique_ptr<collective::Adaptation> adaptation;  // null: the compressor stays as it is
  std::unique_ptr<collective::Collective> collective;  // null: algorithm none
  std::unique_ptr<train::Synchronizer> synchronizer;
  std::unique_ptr<optim::Optimizer> optimizer;
  std::unique_ptr<optim::Schedule> schedule;
  train::Plan plan;
  int threads = 1;

  std::string collective_name() const;
};

/// @param communication_thread whether MPI admits one
/// @param fault what shall go wrong, for tests
/// @throws Error{usage}, Error{data}; the same on every rank or agreed by all. Collective.
std::unique_ptr<Run> build_run(const RunConfig& config, comm::Communicator& comm,
                               bool communication_thread,
                               const std::optional<train::Fault>& fault = {});

std::unique_ptr<codec::Compressor> make_compressor(const RunConfig::Compressor& config);

/// What the run record says about this run.
metrics::RunRecord describe(const RunConfig& config, const Run& run,
                            const comm::Communicator& comm);

}  // namespace eqt::app
