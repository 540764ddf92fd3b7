// SPDX-License-Identifier: Apache-2.0
// What choosing grades cannot be combined with.

#pragma once

#include <string>

#include "config/run_config.hpp"

namespace eqt::config {

/// @throws Error{usage}; `origin` says where the keys stand
void check_auto(const RunConfig& config, const std::string& origin);

}  // namespace eqt::config
