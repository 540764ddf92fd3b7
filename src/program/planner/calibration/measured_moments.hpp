// SPDX-License-Identifier: Apache-2.0
// When gradients are ready, from a calibration. Private to the room.

#pragma once

#include <string>

#include "config/run_config.hpp"
#include "planner/calibration/calibration.hpp"
#include "planner/planned_step.hpp"

namespace eqt::planner {

/// The run of the config's model, precision and data set whose batch is nearest; null: there is
/// none.
/// @param profiled only of runs with a profile
const RunTimes* nearest_run(const Calibration& calibration, const config::RunConfig& config,
                            bool profiled = false);

/// Sets the moments at which the network's gradients are ready, if a run of it was profiled. Those
/// of emulated boards follow from multiply-adds, as they are.
/// @param guessed gets what was not measured
/// @return a note: of which run they are, or why it was not used; "": there is no such run
std::string take_moments(PlannedNetwork& network, const Calibration& calibration,
                         const config::RunConfig& config, std::vector<std::string>& guessed);

}  // namespace eqt::planner
