// SPDX-License-Identifier: Apache-2.0
// Laws of every mixing matrix, for all kinds and many sizes.

#include <algorithm>
#include <cmath>
#include <random>

#include "support/topologies.hpp"

using namespace eqt::topology;
using eqt::Rank;

namespace {

constexpr int kMaxRanks = 33;

/// Calls `check` for every kind, every size that it exists for and every matrix of its period.
template <typename Check>
void for_every_matrix(Check&& check) {
  for (const Options& options : eqt::test::named_options()) {
    for (int ranks = 1; ranks <= kMaxRanks; ++ranks) {
      if (!eqt::test::exists(options, ranks)) continue;
      const auto topology = make_topology(options, ranks);
      INFO(topology->name() << " of " << ranks);
      CHECK(topology->ranks() == ranks);
      for (eqt::StepId step = 0; step < topology->period(); ++step) check(topology->at(step));
    }
  }
}

/// A strongly connected directed graph: a ring and random chords. Those from lower to higher ranks
/// alone connect all ranks, too.
Graph random_graph(int ranks, std::mt19937& random) {
  Graph graph{.ranks = ranks, .directed = true, .edges = {}};
  std::bernoulli_distribution chord(0.2);
  for (Rank from = 0; from < ranks; ++from)
    for (Rank to = 0; to < ranks; ++to)
      if (to == (from + 1) % ranks || (from != to && chord(random)))
        graph.edges.push_back({from, to});
  return graph;
}

}  // namespace

TEST_CASE("named graphs: rows and columns sum to 1 within 1e-12", "[topology]") {
  for_every_matrix([](const MixingMatrix& w) {
    const std::vector<double> dense = w.row_major();
    const auto n = static_cast<std::size_t>(w.ranks());
    for (std::size_t i = 0; i < n; ++i) {
      double row = 0, column = 0;
      for (std::size_t j = 0; j < n; ++j) {
        row += dense[i * n + j];
        column += dense[j * n + i];
      }
      CHECK(std::abs(row - 1) <= 1e-12);
      CHECK(std::abs(column - 1) <= 1e-12);
    }
    CHECK(w.is_doubly_stochastic());
  });
}

TEST_CASE("out-neighbours and in-neighbours agree", "[topology]") {
  for_every_matrix([](const MixingMatrix& w) {
    std::size_t in = 0, out = 0;
    for (Rank rank = 0; rank < w.ranks(); ++rank) {
      Rank before = -1;
      for (const Neighbour& to : w.out_neighbours(rank)) {
        CHECK(to.rank > before);
        before = to.rank;
        const auto back = w.in_neighbours(to.rank);
        CHECK(std::ranges::count(back, Neighbour{rank, to.weight}) == 1);
        CHECK(w.weight(to.rank, rank) == to.weight);
      }
      in += w.in_neighbours(rank).size();
      out += w.out_neighbours(rank).size();
    }
    CHECK(in == out);
    CHECK(out == w.edge_count());
  });
}

TEST_CASE("every rank keeps a part of its value, so that values converge", "[topology]") {
  for_every_matrix([](const MixingMatrix& w) {
    for (Rank rank = 0; rank < w.ranks(); ++rank) CHECK(w.self_weight(rank) > 0);
  });
}

TEST_CASE("uniform weights on any directed graph keep the sum", "[topology]") {
  std::mt19937 random(5);
  for (int ranks = 2; ranks <= kMaxRanks; ++ranks) {
    const Graph graph = random_graph(ranks, random);
    const auto topology = make_topology({.kind = GraphKind::graph, .graph = graph}, ranks);
    const MixingMatrix& w = topology->at(0);
    CHECK(w.is_column_stochastic());
    CHECK(w.edge_count() == graph.edges.size());
    for (const GraphEdge& edge : graph.edges)
      CHECK(w.weight(edge.to, edge.from) == w.self_weight(edge.from));
  }
}

TEST_CASE("Metropolis weights on any undirected graph are symmetric and keep sum and mean",
          "[topology]") {
  std::mt19937 random(6);
  for (int ranks = 2; ranks <= kMaxRanks; ++ranks) {
    Graph graph = random_graph(ranks, random);
    graph.directed = false;
    std::erase_if(graph.edges, [](const GraphEdge& edge) { return edge.from > edge.to; });
    const auto topology = make_topology({.kind = GraphKind::graph, .graph = graph}, ranks);
    CHECK(topology->at(0).is_symmetric());
    CHECK(topology->at(0).is_doubly_stochastic());
  }
}
