// SPDX-License-Identifier: Apache-2.0
#include "sync/gossip/asynchronous_gossip.hpp"

#include <set>

#include "support/topologies.hpp"
#include "topology/connectivity.hpp"

using namespace eqt;
using namespace eqt::sync;
using topology::GraphKind;

namespace {

std::vector<PairRole> roles_of(GraphKind kind, int ranks) {
  const auto topology = test::make(kind, ranks);
  std::vector<PairRole> roles;
  for (Rank rank = 0; rank < ranks; ++rank) roles.push_back(assign_role(*topology, rank));
  return roles;
}

}  // namespace

TEST_CASE("active ranks ask only passive ones, on every bipartite graph", "[pairs]") {
  struct Case {
    GraphKind kind;
    int ranks;
  };
  for (const auto& [kind, ranks] : {Case{GraphKind::ring, 2},
                                    {GraphKind::ring, 6},
                                    {GraphKind::star, 5},
                                    {GraphKind::mesh, 9},
                                    {GraphKind::torus, 16},
                                    {GraphKind::complete, 2}}) {
    const auto roles = roles_of(kind, ranks);
    const auto topology = test::make(kind, ranks);
    INFO(name_of(kind) << " of " << ranks);
    for (Rank rank = 0; rank < ranks; ++rank) {
      const PairRole& role = roles[static_cast<std::size_t>(rank)];
      std::set<Rank> partners;
      for (const Partner& partner : role.partners) {
        const PairRole& other = roles[static_cast<std::size_t>(partner.rank)];
        CHECK(other.active != role.active);
        CHECK(partner.turns == (role.active ? role : other).partners.size());
        partners.insert(partner.rank);
      }
      std::set<Rank> neighbours;
      for (const auto& neighbour : topology->at(0).out_neighbours(rank))
        neighbours.insert(neighbour.rank);
      CHECK(partners == neighbours);
    }
  }
}

TEST_CASE("the larger side is active; of two equal ones that without rank 0", "[pairs]") {
  const auto ring = roles_of(GraphKind::ring, 6);
  for (std::size_t rank = 0; rank < 6; ++rank) CHECK(ring[rank].active == (rank % 2 == 1));
  const auto star = roles_of(GraphKind::star, 5);
  for (std::size_t rank = 0; rank < 5; ++rank) CHECK(star[rank].active == (rank != 0));
  // Of a 3 x 3 mesh corners and centre are 5, the sides' middles 4.
  const auto mesh = roles_of(GraphKind::mesh, 9);
  for (std::size_t rank = 0; rank < 9; ++rank) CHECK(mesh[rank].active == (rank % 2 == 0));
  CHECK(!roles_of(GraphKind::ring, 1)[0].active);
}

TEST_CASE("in the first exchange no two ranks of a ring ask the same rank", "[pairs]") {
  const auto ring = roles_of(GraphKind::ring, 8);
  std::set<Rank> asked;
  for (const PairRole& role : ring) {
    if (role.active) asked.insert(role.partners.front().rank);
  }
  CHECK(asked.size() == 4);
}

TEST_CASE("graphs that pairs cannot average on are refused with a choice that works", "[pairs]") {
  const auto refusal = [](GraphKind kind, int ranks, bool directed = false) {
    const auto topology = test::make(kind, ranks, directed);
    return test::refusal(Kind::usage, [&] { (void)assign_role(*topology, 0); });
  };
  const std::string odd = refusal(GraphKind::ring, 5);
  test::says(odd, "bipartite");
  test::says(odd, "odd cycle through ranks 2 and 3");
  test::says(odd, "even number of ranks");
  test::says(odd, "star");
  test::says(refusal(GraphKind::complete, 3), "odd cycle");
  test::says(refusal(GraphKind::torus, 9), "odd cycle");
  test::says(refusal(GraphKind::ring, 4, true), "undirected");
  test::says(refusal(GraphKind::exponential, 8), "undirected");
  test::says(refusal(GraphKind::one_peer_exponential, 8), "does not change");
}

TEST_CASE("sides are distances modulo 2", "[pairs]") {
  const auto even = topology::bipartition_of(test::make(GraphKind::ring, 8)->at(0));
  CHECK(even.side == std::vector<int>{0, 1, 0, 1, 0, 1, 0, 1});
  CHECK(!even.odd_edge);
  const auto one = topology::bipartition_of(test::make(GraphKind::ring, 1)->at(0));
  CHECK(one.side == std::vector<int>{0});
  CHECK(!one.odd_edge);
  // 0 -> 1 -> 2 -> 0, edges in one direction only.
  const auto triangle = test::make(GraphKind::ring, 3, true);
  CHECK(topology::bipartition_of(triangle->at(0)).odd_edge == std::pair<Rank, Rank>{1, 2});
  CHECK(!topology::is_undirected(triangle->at(0)));
  CHECK(topology::is_undirected(test::make(GraphKind::mesh, 6)->at(0)));
}
