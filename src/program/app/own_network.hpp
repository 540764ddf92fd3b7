// SPDX-License-Identifier: Apache-2.0
// A network of the user's own may compute for ever.

#pragma once

#include <optional>

#include "comm/watchdog.hpp"
#include "config/run_config.hpp"

namespace eqt::app {

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
