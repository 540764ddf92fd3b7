// SPDX-License-Identifier: Apache-2.0
// Active and passive ranks when models are averaged in pairs.

#pragma once

#include <cstddef>
#include <vector>

#include "core/layout.hpp"
#include "topology/topology.hpp"

namespace eqt::sync {

/// A rank that a rank averages with.
struct Partner {
  Rank rank = 0;
  std::size_t turns = 1;  // number of partners of the active one, which asks them in turn
};

/// One rank's part. Ranks of one side of a bipartite graph are active: they ask. Those of the
/// other are passive: they answer at any time. So no rank waits for a rank that waits, and there
/// can be no deadlock.
struct PairRole {
  bool active = false;
  /// The graph's neighbours. Active ranks begin with different ones, so that they do not all ask
  /// the same rank first.
  std::vector<Partner> partners;
};

/// The larger side is active, because each active rank asks once per step: the leaves of a star,
/// not its centre. If both are equal, the one without rank 0: odd ranks of a ring (Lian et al.
/// 2018). A single rank is passive.
/// @throws Error{usage} unless the graph is undirected, does not change and has no odd cycle; the
/// message has the condition and a valid choice
PairRole assign_role(const topology::Topology& topology, Rank rank);

}  // namespace eqt::sync
