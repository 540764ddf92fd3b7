// SPDX-License-Identifier: Apache-2.0
// Makes a topology from config keys.

#pragma once

#include <memory>
#include <string>

#include "config/run_config.hpp"
#include "topology/topology.hpp"

namespace eqt::config {

using TopologyConfig = RunConfig::Synchronization::Topology;

/// Checks that need neither the number of ranks nor the graph file: keys that would silently do
/// nothing, and weights that do not suit the kind.
/// @throws Error{usage}; `origin` names the source of the keys
void check_topology(const TopologyConfig& config, const std::string& origin);

/// @param graph_text the text of config.file, for the kind "graph"
/// @throws Error{usage} if there is no such topology of this many ranks: what is wrong, and a
/// choice that works
std::unique_ptr<topology::Topology> build_topology(const TopologyConfig& config, int ranks,
                                                   const std::string& graph_text = {});

}  // namespace eqt::config
