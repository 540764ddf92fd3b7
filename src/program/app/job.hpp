// SPDX-License-Identifier: Apache-2.0
// A training job before its run is built: its config, which rank 0 reads once, so that it may be a
// pipe, what the environment says about its network, and what else is known of it.

#pragma once

#include <memory>
#include <optional>
#include <string>

#include "app/command_line.hpp"
#include "app/resume.hpp"
#include "app/run_folder.hpp"
#include "comm/communicator.hpp"
#include "comm/fault.hpp"
#include "comm/session.hpp"
#include "config/facts.hpp"
#include "config/run_config.hpp"
#include "core/error.hpp"
#include "planner/plan.hpp"
#include "planner/rate_search.hpp"
#include "setup/build_model.hpp"

namespace eqt::app {

/// Delays that the job makes itself, and the shaped links that it runs on.
struct Laboratory {
  std::optional<comm::LinkDelay> link;  // from EQT_LINK: the same on every rank
  std::string shaped;                   // EQT_LABORATORY, as scripts/netlab.sh sets it; "" = none
};

/// Returns what must be equal on all ranks, before read_laboratory().
config::Facts laboratory_facts();

/// Reads the environment and makes `comm` hold messages.
/// @pre laboratory_facts() are equal on all ranks
/// @throws Error{usage} for a malformed text, and for EQT_LINK in a simulation
Laboratory read_laboratory(bool simulates, comm::Communicator& comm);

/// Returns what a reader of the records must know; "" without EQT_LINK.
std::string note_on_link(const Laboratory& laboratory);

/// This rank's knowledge of the config before MPI starts.
struct OwnConfig {
  std::optional<std::string> text;  // rank 0's; on other ranks only if it is a regular file
  std::optional<Error> error;       // why rank 0 could not read it; reported after MPI has started
  double timeout_seconds = 0;       // for starting: that of the text, or 300
};

/// Reads the file under a deadline. Not collective, before MPI starts.
OwnConfig read_own_config(const TrainCommand& command);

/// Rank 0's config on all ranks. A rank that was given another file, and can read it, must have
/// been given the same settings. Collective.
/// @throws comm::AgreedError{usage}
config::RunConfig share_config(const TrainCommand& command, const OwnConfig& own,
                               comm::Communicator& comm);

/// A Choice is what train.tune has chosen.
struct Choice {
  planner::RateSearch rates;  // none tried: the config's own counts as the best
  planner::TunedRecipe recipe{};
  config::RunConfig config{};  // with it, and without train.tune
  double seconds = 0;          // that all of it took
};

/// This is known of a job before its run is built.
struct Job {
  const TrainCommand& command;
  std::string program;  // as it was started
  const comm::Session& session;
  comm::Communicator& comm;
  config::RunConfig config;  // with --resume, keys that must not change are those of the saved run
  std::optional<comm::Fault> fault;
  std::string path;                   // of the run folder
  std::unique_ptr<RunFolder> folder;  // on rank 0
  std::optional<Resume> resume;
  Laboratory laboratory;
  std::string note_on_mixed_ranks;  // empty if all ranks have the same
  setup::DeviceChoice device;
  std::optional<Choice> choice;  // none: the config's own recipe
};

}  // namespace eqt::app
