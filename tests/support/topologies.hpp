// SPDX-License-Identifier: Apache-2.0
// Topologies for tests: each kind by name.

#pragma once

#include <memory>
#include <vector>

#include "support/refusal.hpp"
#include "topology/topology.hpp"

namespace eqt::test {

inline std::unique_ptr<topology::Topology> make(
    topology::GraphKind kind, int ranks, bool directed = false,
    topology::Weights weights = topology::Weights::automatic, int rows = 0) {
  return topology::make_topology(
      {.kind = kind, .directed = directed, .weights = weights, .rows = rows}, ranks);
}

/// The kinds that take options only, each once; the ring also directed.
inline std::vector<topology::Options> named_options() {
  std::vector<topology::Options> all;
  for (const topology::GraphKindRow& kind : names_of(topology::GraphKind{}))
    if (!kind.users_own) all.push_back({.kind = kind.value});
  all.push_back({.kind = topology::GraphKind::ring, .directed = true});
  return all;
}

/// True if the kind exists for this many ranks: lattices need two sides of at least 2.
inline bool exists(const topology::Options& options, int ranks) {
  if (options.kind != topology::GraphKind::torus && options.kind != topology::GraphKind::mesh)
    return true;
  for (int side = 2; side * side <= ranks; ++side)
    if (ranks % side == 0) return true;
  return ranks == 1;
}

}  // namespace eqt::test
