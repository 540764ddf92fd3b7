// SPDX-License-Identifier: Apache-2.0
// A network that a run has trained, from the run's folder.

#pragma once

#include <optional>
#include <string>
#include <vector>

#include "app/preprocessing.hpp"
#include "comm/watchdog.hpp"
#include "config/run_config.hpp"
#include "model/replica.hpp"

namespace eqt::app {

struct TrainedRun {
  std::string folder;
  config::RunConfig config;
  Preprocessing input;
  std::string weights;  // the file
};

/// Returns the files that a verb reads of the run, and of what its config names, if they are there.
std::vector<std::string> files_of(const TrainedRun& run);

bool is_run_folder(const std::string& path);

/// The keys of a config that say what a trained network is and which data it is for. All that only
/// training reads has its default: the compressor's plugin, a graph or decisions to repeat may be
/// gone. @throws Error{usage}
config::RunConfig parse_trained_config(const std::string& text, const std::string& origin,
                                       const std::vector<std::string>& sets);

/// @param best the weights of the best evaluation instead of the last ones
/// @throws Error{data} if the folder lacks what a finished run leaves
TrainedRun open_run(const std::string& folder, bool best);

/// The run's network for its input and classes. @throws Error{data} if its own file is missing
model::ModelOptions network_options(const TrainedRun& run);

/// The network with the run's weights. @param threads that compute; 0: as many as there are cores
std::unique_ptr<model::Replica> load_network(const TrainedRun& run, int threads);

/// While it lives, this process ends with one sentence and exit code 7 if it takes longer than
/// synchronization.timeout_seconds. For verbs without MPI, whose job has no deadline of its own;
/// nothing where the network is the program's.
class OwnNetworkDeadline {
 public:
  explicit OwnNetworkDeadline(const config::RunConfig& config) {
    if (!config.model.name->users_own) return;
    watchdog_.emplace(config.synchronization.timeout_seconds, comm::Watchdog::kNobody, 0);
    watchdog_->heartbeat("trying the network of model.path on example inputs");
  }

 private:
  std::optional<comm::Watchdog> watchdog_;
};

}  // namespace eqt::app
