// SPDX-License-Identifier: Apache-2.0
// Combinations of keys of emulated boards.

#pragma once

#include <string>

#include "config/run_config.hpp"

namespace eqt::config {

/// Refuses train.emulate_jitter and train.emulate_changes where they mean nothing.
/// @throws Error{usage}
void check_board_speed(const RunConfig& config, const std::string& origin);

}  // namespace eqt::config
