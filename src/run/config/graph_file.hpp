// SPDX-License-Identifier: Apache-2.0
// The user's own graph: a JSON file with edges.
//
//   {"ranks": 4, "edges": [[0, 1], [1, 2], [2, 3], [3, 0]]}                      both ways, no
//   weights
//   {"ranks": 3, "directed": true, "edges": [[0, 1, 0.5], [1, 2, 0.5], [2, 0, 0.5]]}

#pragma once

#include <string>

#include "topology/topology.hpp"

namespace eqt::config {

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
