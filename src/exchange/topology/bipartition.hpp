// SPDX-License-Identifier: Apache-2.0
// Whether the graph is bipartite: whether ranks fall into two sides with edges only between them.

#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "core/layout.hpp"
#include "topology/mixing_matrix.hpp"

namespace eqt::topology {

struct Bipartition {
  /// Each rank has a side, 0 or 1; rank 0 has 0.
  std::vector<int> side;
  /// An edge between two ranks of one side, if there is one: it closes an odd cycle, and no
  /// other choice of sides does better.
  std::optional<std::pair<Rank, Rank>> odd_edge;
};

/// Divides ranks by their distance from rank 0, edges taken in both directions.
Bipartition bipartition_of(const MixingMatrix& matrix);

/// Whoever sends to a rank also receives from it; weights may differ.
bool is_undirected(const MixingMatrix& matrix);

}  // namespace eqt::topology
