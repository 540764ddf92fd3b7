// SPDX-License-Identifier: Apache-2.0
#include "sync/gossip/pair_roles.hpp"

#include <algorithm>

#include "core/error.hpp"
#include "topology/connectivity.hpp"

namespace eqt::sync {
namespace {

constexpr const char* kWorks = "an undirected ring, torus or mesh with even sides, or a star";

/// The side of the active ranks.
int active_side(const topology::Topology& topology) {
  const topology::MixingMatrix& graph = topology.at(0);
  if (!topology.is_static() || !topology::is_undirected(graph)) {
    fail(Kind::usage,
         "averaging in pairs: expected an undirected graph that does not change, found the {}; "
         "take {}",
         topology.name(), kWorks);
  }
  const topology::Bipartition sides = topology::bipartition_of(graph);
  if (sides.odd_edge) {
    fail(Kind::usage,
         "averaging in pairs: expected a bipartite graph, so that active ranks only ask passive "
         "ones, found an odd cycle through ranks {} and {} in the {} of {} ranks; take an even "
         "number of ranks for a ring, or a star or mesh of any",
         sides.odd_edge->first, sides.odd_edge->second, topology.name(), topology.ranks());
  }
  const auto odd = std::ranges::count(sides.side, 1);
  return 2 * odd >= std::ssize(sides.side) ? 1 : 0;
}

}  // namespace

PairRole assign_role(const topology::Topology& topology, Rank rank) {
  const int active = active_side(topology);
  const topology::MixingMatrix& graph = topology.at(0);
  const auto sides = topology::bipartition_of(graph).side;
  const auto neighbours = graph.out_neighbours(rank);
  PairRole role{.active = !neighbours.empty() && sides[static_cast<std::size_t>(rank)] == active,
                .partners = {}};
  for (const topology::Neighbour& neighbour : neighbours) {
    const Rank asking = role.active ? rank : neighbour.rank;
    role.partners.push_back({neighbour.rank, graph.out_neighbours(asking).size()});
  }
  const auto above = std::ranges::find_if(
      role.partners, [rank](const Partner& partner) { return partner.rank > rank; });
  std::rotate(role.partners.begin(), above, role.partners.end());
  return role;
}

}  // namespace eqt::sync
