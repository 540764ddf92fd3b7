// SPDX-License-Identifier: Apache-2.0
// Which ranks ask and which answer when models are averaged in pairs.

#pragma once

#include <cstddef>
#include <vector>

#include "core/layout.hpp"
#include "topology/topology.hpp"

namespace eqt::gossip {

/// A rank that a rank averages with.
struct Partner {
  Rank rank = 0;
  std::size_t turns = 1;  // partners of whichever of the two asks: it asks each in turn
};

/// One rank's part. Ranks of one side of a bipartite graph are active: they ask. Those of the
/// other are passive: they answer at any time. So no rank waits for one that waits itself, and
/// there can be no deadlock.
struct PairRole {
  bool active = false;
  /// The graph's neighbours; where an active rank begins differs, so that they do not all ask the
  /// same ones at first.
  std::vector<Partner> partners;
};

/// The larger side is active, as each active rank asks once in a step: the leaves of a star, not
/// its centre. If both are equal, that without rank 0: odd ranks of a ring (Lian et al. 2018). A
/// rank alone is passive.
/// @throws Error{usage} unless the graph is undirected, does not change and has no odd cycle: which
/// condition is not met, and a choice that works
PairRole assign_role(const topology::Topology& topology, Rank rank);

}  // namespace eqt::gossip
