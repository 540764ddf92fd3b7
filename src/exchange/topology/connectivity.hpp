// SPDX-License-Identifier: Apache-2.0
// These tell to which ranks edges lead, after how many steps they come back, and whether ranks fall
// into two sides with edges only between them.

#pragma once

#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/layout.hpp"
#include "topology/mixing_matrix.hpp"

namespace eqt::topology {

/// Holds for each rank the ranks it sends to; self weights above 0 are edges to itself.
using Adjacency = std::vector<std::vector<Rank>>;

Adjacency edges_of(const MixingMatrix& matrix);

/// True if edges lead from every rank to every other.
bool is_strongly_connected(const Adjacency& edges);

/// The greatest common divisor of the lengths of all cycles: 1 = aperiodic, 2 = bipartite without
/// self weights; 0 for a single rank without a self weight.
/// Source: E. Denardo, Math. of Operations Research 2 (1977).
/// @pre is_strongly_connected(edges)
int cycle_period(const Adjacency& edges);

/// "no edges lead from rank 0 to rank 3"; "" if edges lead from every rank to every other.
std::string why_unconnected(const Adjacency& edges);

/// Returns where edges of each of `rounds` in turn lead: from rank r over one edge of each.
/// @pre at least one round, all of one size
Adjacency composed(std::span<const Adjacency> rounds);

/// Ranks on two sides, with as few edges within a side as possible.
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
