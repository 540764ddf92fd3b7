// SPDX-License-Identifier: Apache-2.0
#include "app/job_config.hpp"

#include <filesystem>
#include <system_error>

#include "app/verbs.hpp"
#include "comm/launch.hpp"
#include "comm/watchdog.hpp"
#include "setup/same_everywhere.hpp"

namespace eqt::app {
namespace {

constexpr double kStartTimeoutSeconds = 300;  // if the config cannot be read yet

/// The deadline of the config, or of --set if another rank reads the file.
double timeout_of(const TrainCommand& command, const std::optional<std::string>& text) {
  try {
    return config::parse_config(text.value_or("{}"), command.config_path, command.sets)
        .synchronization.timeout_seconds;
  } catch (const Error&) {
    return kStartTimeoutSeconds;  // errors are reported when all ranks can receive them
  }
}

/// The config of this rank: rank 0's file, unless the rank was given another one that it can read.
config::RunConfig config_of_this_rank(const TrainCommand& command, const OwnConfig& own,
                                      const std::string& first_path,
                                      const std::string& first_text) {
  const bool another = command.config_path != first_path && own.text;
  return config::parse_config(another ? *own.text : first_text, command.config_path, command.sets);
}

}  // namespace

OwnConfig read_own_config(const TrainCommand& command) {
  comm::Watchdog watchdog(kStartTimeoutSeconds, comm::launched_rank(), comm::launched_size());
  watchdog.heartbeat("reading of the config");
  OwnConfig own;
  std::error_code none;
  // A pipe can be read only once, and only rank 0 has the job's standard input.
  const bool first = comm::launched_rank() <= 0;
  try {
    if (first || std::filesystem::is_regular_file(command.config_path, none))
      own.text = read_config_file(command.config_path);
  } catch (const Error& error) {
    own.error = error;
  }
  own.timeout_seconds = timeout_of(command, own.text);
  return own;
}

config::RunConfig share_config(const TrainCommand& command, const OwnConfig& own,
                               comm::Communicator& comm) {
  comm.agree_after([&] {
    if (comm.rank() == 0 && own.error) throw *own.error;
  });
  const std::string text = comm.broadcast(own.text.value_or(""), 0);
  const std::string path = comm.broadcast(command.config_path, 0);
  config::RunConfig config;
  comm.agree_after([&] { config = config_of_this_rank(command, own, path, text); });
  setup::require_same_config(config, comm);
  return config;
}

}  // namespace eqt::app
