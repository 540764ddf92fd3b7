// SPDX-License-Identifier: Apache-2.0
// Makes a topology from config keys, and reads the user's own graph: a JSON file with edges.
//
//   {"ranks": 4, "edges": [[0, 1], [1, 2], [2, 3], [3, 0]]}                      both ways, no
//   weights
//   {"ranks": 3, "directed": true, "edges": [[0, 1, 0.5], [1, 2, 0.5], [2, 0, 0.5]]}

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

inline constexpr int kMaxGraphRanks = 4096;

/// The file's text. @throws Error{usage} unless it is a regular, readable file that is not too
/// large
std::string read_graph_file(const std::string& path);

/// Checks every byte, but not whether ranks can train on the graph: topology::check_options and
/// make_topology do.
/// @throws Error{usage}: malformed JSON, a key that is unknown, missing or occurs twice, a wrong
/// type or a number out of range; `origin` names the file
topology::Graph parse_graph(const std::string& text, const std::string& origin);

}  // namespace eqt::config
