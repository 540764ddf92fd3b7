// SPDX-License-Identifier: Apache-2.0
// A training job between its command line and its run.

#pragma once

#include <memory>
#include <optional>
#include <string>

#include "app/command_line.hpp"
#include "app/resume.hpp"
#include "app/run_folder.hpp"
#include "comm/communicator.hpp"
#include "comm/session.hpp"
#include "config/run_config.hpp"
#include "train/fault.hpp"

namespace eqt::app {

/// What a job has before anything is built.
struct Job {
  const TrainCommand& command;
  const comm::Session& session;
  comm::Communicator& comm;
  config::RunConfig config;  // with --resume that of the saved run, as far as it must stay
  std::optional<train::Fault> fault;
  std::string path;                   // of the run folder
  std::unique_ptr<RunFolder> folder;  // on rank 0
  std::optional<Resume> resume;
};

}  // namespace eqt::app
