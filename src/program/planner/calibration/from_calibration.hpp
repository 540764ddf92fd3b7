// SPDX-License-Identifier: Apache-2.0
// A plan takes from a calibration what a cluster file leaves out, and when gradients are ready.
// Private to the room.

#pragma once

#include <string>
#include <vector>

#include "config/run_config.hpp"
#include "planner/calibration/calibration.hpp"
#include "planner/cluster_file.hpp"
#include "planner/planned_step.hpp"

namespace eqt::planner {

/// Sets the computing times of boards that have neither step_seconds nor flops, and the rates and
/// latencies of links that have none. A run of the config's model, precision and data set gives the
/// times, in proportion to its batch, or, with another run of another batch on such a board, on the
/// line through both; where doctor measured the speed of its host, also those of
/// boards with flops, in inverse proportion to these, which they then have no more. A cable has the
/// measured rate while both directions are busy, a radio channel twice that of one direction, for
/// each byte passes it twice.
/// @param origin of the cluster, for errors
/// @return notes: what was taken from where
/// @throws Error{usage} if the calibration does not know it either
std::vector<std::string> complete(ClusterFile& file, const std::string& origin,
                                  const Calibration& calibration, const config::RunConfig& config);

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
