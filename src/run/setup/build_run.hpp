// SPDX-License-Identifier: Apache-2.0
// A RunConfig becomes the parts of a run, stage by stage: data, model, messages, synchronization,
// update.

#pragma once

#include <memory>
#include <optional>
#include <string>

#include "comm/communicator.hpp"
#include "config/run_config.hpp"
#include "metrics/records.hpp"
#include "optim/optimizer.hpp"
#include "optim/schedule.hpp"
#include "setup/build_data.hpp"
#include "setup/build_messages.hpp"
#include "setup/build_model.hpp"
#include "setup/build_synchronization.hpp"
#include "sync/divergence.hpp"
#include "train/trainer.hpp"

namespace eqt::setup {

struct UpdateParts {
  std::unique_ptr<optim::Optimizer> optimizer;
  std::unique_ptr<optim::Schedule> schedule;
};

/// Owns the parts; each stage keeps references to those above it, and data.simulation to the model.
struct Run {
  ModelParts model;
  DataParts data;
  MessageParts messages;
  std::unique_ptr<sync::Divergence> divergence;
  std::unique_ptr<sync::Timeline> timeline;  // null: nothing is noted
  SyncParts sync;
  std::unique_ptr<train::BatchBalancer> balancer;  // null: batches of one size
  UpdateParts update;
  train::Plan plan;

  std::string collective_name() const;
};

/// A run that is resumed stands here, as its ranks counted.
struct SavedPosition {
  StepId step = 0;            // completed
  std::uint64_t epoch = 0;    // of the next batch, from 0
  std::uint64_t batch = 0;    // likewise
  std::uint64_t batches = 1;  // of an epoch
  bool epoch_open = false;    // the epoch that ended with this step has yet to be evaluated
};

/// `config` with the collective that `auto` chose or for a simulation, and with the error feedback
/// of `auto` that other versions would not choose, so that it repeats this run.
config::RunConfig settled_config(const config::RunConfig& config, const Run& run);

/// @param communication_thread whether MPI admits one
/// @param fault what shall go wrong, for tests
/// @param from where it goes on; nothing: it begins
/// @param simulate ranks that this process plays, if require_simulable() lets it; 0: it is one
/// @param placement of this rank's network
/// @throws Error{usage}, Error{data}; the same on every rank or agreed by all. Collective.
std::unique_ptr<Run> build_run(const config::RunConfig& config, comm::Communicator& comm,
                               bool communication_thread,
                               const std::optional<comm::Fault>& fault = {},
                               const std::optional<SavedPosition>& from = {}, int simulate = 0,
                               const model::Placement& placement = {});

/// Returns what the run record says about this run.
metrics::RunRecord describe(const config::RunConfig& config, const Run& run,
                            const comm::Communicator& comm);

}  // namespace eqt::setup
