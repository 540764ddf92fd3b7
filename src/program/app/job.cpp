// SPDX-License-Identifier: Apache-2.0
#include "app/job.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "app/verbs.hpp"
#include "comm/launch.hpp"
#include "comm/link_delay.hpp"
#include "comm/watchdog.hpp"
#include "core/error.hpp"
#include "setup/same_everywhere.hpp"

namespace eqt::app {
namespace {

constexpr std::size_t kMostBytes = 4096;

std::string read_shaped() {
  const char* const text = std::getenv("EQT_LABORATORY");
  if (text == nullptr) return {};
  std::string shaped(text);
  const bool printable =
      std::all_of(shaped.begin(), shaped.end(), [](char c) { return c >= ' ' && c <= '~'; });
  if (!printable || shaped.size() > kMostBytes)
    fail(Kind::usage,
         "EQT_LABORATORY: expected at most {} printable ASCII characters, as scripts/netlab.sh "
         "sets it, found {} bytes; unset it",
         kMostBytes, shaped.size());
  return shaped;
}

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

config::Facts laboratory_facts() {
  const char* const text = std::getenv(comm::kLinkVariable);
  if (text == nullptr) return {};
  return {{comm::kLinkVariable, text}};
}

Laboratory read_laboratory(bool simulates, comm::Communicator& comm) {
  Laboratory laboratory{.link = comm::link_delay_from_environment(comm.size()),
                        .shaped = read_shaped()};
  if (laboratory.link && simulates)
    fail(Kind::usage,
         "EQT_LINK: expected ranks of MPI, since a simulation sends nothing, found --simulate; "
         "leave one of the two out");
  comm.transfers().set_link_delay(laboratory.link);
  return laboratory;
}

std::string note_on_link(const Laboratory& laboratory) {
  if (!laboratory.link) return {};
  const comm::LinkDelay& link = *laboratory.link;
  return fmt::format(
      "EQT_LINK: {} holds every message for {:.12g} ms{}, except what MPI's own collectives send, "
      "so seconds of this run are no measurement of the real network",
      link.rank ? fmt::format("rank {}", *link.rank) : "each rank", 1000 * link.latency_seconds,
      link.jitter_seconds > 0
          ? fmt::format(" and up to {:.12g} ms more", 1000 * link.jitter_seconds)
          : std::string());
}

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
