// SPDX-License-Identifier: Apache-2.0
// The config of a job: rank 0 reads it once, so that it may be a pipe, and all ranks use these
// bytes.

#pragma once

#include <optional>
#include <string>

#include "app/command_line.hpp"
#include "comm/communicator.hpp"
#include "config/run_config.hpp"
#include "core/error.hpp"

namespace eqt::app {

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

}  // namespace eqt::app
