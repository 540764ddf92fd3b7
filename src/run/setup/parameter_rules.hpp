// SPDX-License-Identifier: Apache-2.0
// Patterns on names say what the optimizer does with each parameter.

#pragma once

#include <string>
#include <vector>

#include "config/run_config.hpp"
#include "core/layout.hpp"
#include "optim/optimizer.hpp"

namespace eqt::setup {

/// The patterns of model.freeze and of the groups that are frozen.
std::vector<std::string> frozen_patterns(const config::RunConfig& config);

/// Rates and decays of the trained parameters; none where all have those of the config.
/// @throws Error{usage} if a group's pattern matches no trained parameter
optim::UpdateRules update_rules(const config::RunConfig& config, const Layout& layout);

}  // namespace eqt::setup
