// SPDX-License-Identifier: Apache-2.0
// What a cluster file leaves out, from a calibration. Private to the room.

#pragma once

#include <string>
#include <vector>

#include "config/run_config.hpp"
#include "planner/calibration/calibration.hpp"
#include "planner/cluster_file.hpp"

namespace eqt::planner {

/// Sets the computing times of boards that have neither step_seconds nor flops, and the rates and
/// latencies of links that have none. A run of the config's model, precision and data set gives the
/// times, in proportion to its batch; where doctor measured the speed of its host, also those of
/// boards with flops, in inverse proportion to these, which they then have no more. A cable has the
/// measured rate while both directions are busy, a radio channel twice that of one direction, for
/// each byte passes it twice.
/// @param origin of the cluster, for errors
/// @return notes: what was taken from where
/// @throws Error{usage} if the calibration does not know it either
std::vector<std::string> complete(ClusterFile& file, const std::string& origin,
                                  const Calibration& calibration, const config::RunConfig& config);

}  // namespace eqt::planner
