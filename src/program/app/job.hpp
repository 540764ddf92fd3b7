// SPDX-License-Identifier: Apache-2.0
// A training job before its run is built.

#pragma once

#include <memory>
#include <optional>
#include <string>

#include "app/command_line.hpp"
#include "app/laboratory.hpp"
#include "app/resume.hpp"
#include "app/run_folder.hpp"
#include "comm/communicator.hpp"
#include "comm/fault.hpp"
#include "comm/session.hpp"
#include "config/run_config.hpp"
#include "setup/build_model.hpp"

namespace eqt::app {

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
};

}  // namespace eqt::app
