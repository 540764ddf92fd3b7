// SPDX-License-Identifier: Apache-2.0
// Each graph has the neighbours and weights of its definition; an invalid one is refused with
// advice.

#include "topology/topology.hpp"

#include <set>

#include "support/topologies.hpp"

using namespace eqt::topology;
using eqt::test::make;
using eqt::test::refusal;
using eqt::test::says;

namespace {

std::set<eqt::Rank> out(const MixingMatrix& w, eqt::Rank rank) {
  std::set<eqt::Rank> ranks;
  for (const Neighbour& to : w.out_neighbours(rank)) ranks.insert(to.rank);
  return ranks;
}

using Ranks = std::set<eqt::Rank>;

std::unique_ptr<Topology> graph_of(const Graph& graph, Weights weights = Weights::automatic) {
  return make_topology({.kind = GraphKind::graph, .weights = weights, .graph = graph}, graph.ranks);
}

std::string refused(GraphKind kind, int ranks, int rows = 0) {
  return refusal(eqt::Kind::usage, [&] { make(kind, ranks, false, Weights::automatic, rows); });
}

std::string refused(const Graph& graph, Weights weights = Weights::automatic) {
  return refusal(eqt::Kind::usage, [&] { graph_of(graph, weights); });
}

}  // namespace

TEST_CASE("rings: one neighbour or two", "[topology]") {
  const auto directed = make(GraphKind::ring, 5, true);
  CHECK(directed->name() == "directed ring");
  CHECK(out(directed->at(0), 4) == Ranks{0});
  CHECK(directed->at(0).weight(0, 4) == 0.5);
  CHECK(directed->at(0).self_weight(2) == 0.5);
  const auto both = make(GraphKind::ring, 5);
  CHECK(out(both->at(7), 0) == Ranks{1, 4});
  CHECK(both->at(0).weight(0, 4) == 1.0 / 3);
  CHECK(both->at(0).is_symmetric());
  CHECK(both->is_static());
  // Both neighbours of a ring of two are one.
  CHECK(make(GraphKind::ring, 2)->at(0).weight(1, 0) == 0.5);
}

TEST_CASE("tori: four neighbours, and double edges where a side is 2", "[topology]") {
  const auto square = make(GraphKind::torus, 12);
  CHECK(square->name() == "torus 3 x 4");
  CHECK(out(square->at(0), 0) == Ranks{1, 3, 4, 8});
  CHECK(out(square->at(0), 6) == Ranks{5, 7, 2, 10});
  CHECK(square->at(0).self_weight(0) == 0.2);
  const auto narrow = make(GraphKind::torus, 8);
  CHECK(narrow->name() == "torus 2 x 4");
  CHECK(out(narrow->at(0), 0) == Ranks{1, 3, 4});
  CHECK(narrow->at(0).weight(0, 4) == 0.4);
  CHECK(narrow->at(0).weight(0, 1) == 0.2);
  CHECK(make(GraphKind::torus, 4)->at(0).weight(0, 3) == 0);
  CHECK(make(GraphKind::torus, 12, false, Weights::automatic, 6)->name() == "torus 6 x 2");
}

TEST_CASE("exponential graphs: powers of two, all or one at a time", "[topology]") {
  const auto all = make(GraphKind::exponential, 6);
  CHECK(out(all->at(0), 3) == Ranks{4, 5, 1});
  CHECK(all->at(0).weight(1, 3) == 0.25);
  const auto one = make(GraphKind::one_peer_exponential, 6);
  CHECK(one->period() == 3);
  CHECK_FALSE(one->is_static());
  CHECK(out(one->at(0), 3) == Ranks{4});
  CHECK(out(one->at(1), 3) == Ranks{5});
  CHECK(out(one->at(2), 3) == Ranks{1});
  CHECK(out(one->at(3), 3) == Ranks{4});
  CHECK(&one->at(3'000'000'000'001) == &one->at(1));  // 3e12 + 1 = 1 modulo 3
  CHECK(one->at(2).weight(1, 3) == 0.5);
  CHECK(make(GraphKind::one_peer_exponential, 2)->is_static());
  CHECK(make(GraphKind::one_peer_exponential, 9)->period() == 4);
  CHECK(make(GraphKind::one_peer_exponential, 8)->period() == 3);
}

TEST_CASE("complete graph, star and mesh", "[topology]") {
  const auto complete = make(GraphKind::complete, 4);
  CHECK(complete->at(0).row_major() == std::vector<double>(16, 0.25));
  const auto star = make(GraphKind::star, 5);
  CHECK(out(star->at(0), 0) == Ranks{1, 2, 3, 4});
  CHECK(out(star->at(0), 3) == Ranks{0});
  CHECK(star->at(0).weight(0, 3) == 0.2);
  CHECK(star->at(0).self_weight(3) == 0.8);
  CHECK(star->at(0).self_weight(0) == Approx(0.2));
  const auto mesh = make(GraphKind::mesh, 9);
  CHECK(mesh->name() == "mesh 3 x 3");
  CHECK(out(mesh->at(0), 0) == Ranks{1, 3});
  CHECK(out(mesh->at(0), 4) == Ranks{1, 3, 5, 7});
  CHECK(mesh->at(0).weight(0, 1) == 0.25);  // degrees 2 and 3
  CHECK(mesh->at(0).weight(1, 4) == 0.2);   // degrees 3 and 4
  CHECK(mesh->at(0).self_weight(0) == 0.5);
  const auto path = make(GraphKind::mesh, 3, false, Weights::automatic, 1);
  CHECK(path->name() == "mesh 1 x 3");
  CHECK(out(path->at(0), 0) == Ranks{1});
}

TEST_CASE("weights by the other rule", "[topology]") {
  // On a star with uniform weights the centre gives 1/5 away and leaves give 1/2.
  const auto star = make(GraphKind::star, 5, false, Weights::uniform);
  CHECK(star->at(0).weight(3, 0) == 0.2);
  CHECK(star->at(0).weight(0, 3) == 0.5);
  CHECK(star->at(0).is_column_stochastic());
  CHECK_FALSE(star->at(0).is_doubly_stochastic());
  // Metropolis counts an edge of a torus once, even where a side is 2.
  const auto torus = make(GraphKind::torus, 8, false, Weights::metropolis);
  CHECK(torus->at(0).weight(0, 4) == 0.25);
  CHECK(torus->at(0).is_symmetric());
}

TEST_CASE("the user's own graph", "[topology]") {
  // A triangle with a tail: degrees 2, 2, 3, 1.
  const Graph tail{.ranks = 4, .directed = false, .edges = {{0, 1}, {2, 1}, {0, 2}, {2, 3}}};
  const auto metropolis = graph_of(tail);
  CHECK(metropolis->at(0).weight(0, 1) == 1.0 / 3);
  CHECK(metropolis->at(0).weight(2, 3) == 0.25);
  CHECK(metropolis->at(0).is_symmetric());
  const auto uniform = graph_of(tail, Weights::uniform);
  CHECK(uniform->at(0).weight(3, 2) == 0.25);
  CHECK(uniform->at(0).weight(2, 3) == 0.5);
  // Directed: 0 -> 1 -> 2 -> 0 and 0 -> 2.
  const Graph directed{.ranks = 3, .directed = true, .edges = {{0, 1}, {1, 2}, {2, 0}, {0, 2}}};
  const auto push = graph_of(directed);
  CHECK(push->at(0).weight(2, 0) == 1.0 / 3);
  CHECK(push->at(0).weight(0, 2) == 0.5);
  CHECK_FALSE(push->at(0).is_doubly_stochastic());
}

TEST_CASE("with given weights the rank keeps the rest", "[topology]") {
  const auto both = graph_of({.ranks = 3, .edges = {{0, 1, 0.25}, {1, 2, 0.5}}});
  CHECK(both->at(0).weight(0, 1) == 0.25);
  CHECK(both->at(0).weight(1, 0) == 0.25);
  CHECK(both->at(0).self_weight(1) == 0.25);
  CHECK(both->at(0).is_symmetric());
  // Ten edges of 0.1 sum to 1 up to rounding: the rest is 0, which is no error.
  Graph tenths{.ranks = 11, .directed = true, .edges = {}};
  for (eqt::Rank to = 1; to <= 10; ++to) tenths.edges.push_back({0, to, 0.1});
  for (eqt::Rank from = 1; from <= 10; ++from) tenths.edges.push_back({from, 0, 0.5});
  CHECK(graph_of(tenths)->at(0).self_weight(0) <= kSumTolerance);
}

TEST_CASE("for lattices that do not exist, the error names some that do", "[topology]") {
  for (const GraphKind kind : {GraphKind::torus, GraphKind::mesh}) {
    says(refused(kind, 7), "start 6 or 8 ranks");
    says(refused(kind, 2), "start 4 ranks");
    says(refused(kind, 3), "start 4 ranks");
    says(refused(kind, 23), "start 22 or 24 ranks");
    says(refused(kind, 7), "\"ring\"");
    says(refused(kind, 12, 5), std::string("one of ") + (kind == GraphKind::torus ? "2" : "1, 2"));
  }
  says(refused(GraphKind::torus, 12, 12), "2, 3, 4, 6");
  says(refused(GraphKind::torus, 7, 7), "6 or 8");
  says(refused(GraphKind::torus, 8, 1), "found 1");
}

TEST_CASE("rules of weights that do not fit the graph are refused", "[topology]") {
  for (const GraphKind kind : {GraphKind::exponential, GraphKind::one_peer_exponential})
    says(refusal(eqt::Kind::usage, [&] { make(kind, 4, false, Weights::metropolis); }),
         "metropolis");
  says(refusal(eqt::Kind::usage, [&] { make(GraphKind::ring, 4, true, Weights::metropolis); }),
       "edges both ways");
  says(refusal(eqt::Kind::usage, [&] { make(GraphKind::ring, 4, false, Weights::given); }),
       "\"given\"");
  const Graph weighted{.ranks = 2, .edges = {{0, 1, 0.5}}};
  says(refused(weighted, Weights::uniform), "found \"uniform\"");
  says(refused(weighted, Weights::metropolis), "found \"metropolis\"");
  says(refused(Graph{.ranks = 2, .edges = {{0, 1}}}, Weights::given), "found none");
  const Graph one_way{.ranks = 2, .directed = true, .edges = {{0, 1}, {1, 0}}};
  says(refused(one_way, Weights::metropolis), "edges both ways");
}

TEST_CASE("graphs that cannot reach consensus are refused", "[topology]") {
  says(refused({.ranks = 4, .edges = {{0, 1}, {2, 3}}}), "no edges lead from rank 0 to rank 2");
  says(refused({.ranks = 3, .directed = true, .edges = {{0, 1}, {1, 0}, {2, 0}}}),
       "no edges lead from rank 0 to rank 2");
  says(refused({.ranks = 3, .directed = true, .edges = {{0, 1}, {1, 0}, {0, 2}}}),
       "no edges lead from rank 2 to rank 0");
  says(refused({.ranks = 2, .edges = {}}), "rank 1");
  says(refused({.ranks = 4,
                .directed = false,
                .edges = {{0, 1, 0.5}, {1, 2, 0.5}, {2, 3, 0.5}, {3, 0, 0.5}}}),
       "period 2");
}

TEST_CASE("invalid edges are refused", "[topology]") {
  says(refused({.ranks = 2, .edges = {{0, 2}}}), "from 0 to 2");
  says(refused({.ranks = 2, .edges = {{-1, 0}}}), "from -1 to 0");
  says(refused({.ranks = 2, .edges = {{0, 1}, {1, 1}}}), "1 to itself");
  says(refused({.ranks = 2, .edges = {{0, 1}, {1, 0}}}), "twice");
  says(refused({.ranks = 2, .directed = true, .edges = {{0, 1}, {1, 0}, {0, 1}}}), "twice");
  says(refused({.ranks = 3, .edges = {{0, 1, 0.5}, {1, 2}}}), "found none");
  says(refused({.ranks = 2, .edges = {{0, 1, -0.5}}}), "-0.5");
  says(refused({.ranks = 2, .edges = {{0, 1, 1.5}}}), "1.5");
  says(refused({.ranks = 3, .edges = {{0, 1, 0.75}, {1, 2, 0.5}}}), "1.25 for rank 1");
}

TEST_CASE("a graph of another size than the job is refused", "[topology]") {
  const Graph pair{.ranks = 2, .edges = {{0, 1}}};
  says(refusal(eqt::Kind::usage,
               [&] { make_topology({.kind = GraphKind::graph, .graph = pair}, 3); }),
       "start 2 ranks");
  says(refused(GraphKind::ring, 0), "at least 1 rank");
}

TEST_CASE("a cycle needs every matrix to keep the sum", "[topology]") {
  std::vector<MixingMatrix> rows;
  rows.emplace_back(2, std::vector<Entry>{{0, 0, 0.5}, {1, 0, 0.5}, {1, 1, 1}});
  CHECK_FALSE(rows[0].is_column_stochastic());
  says(refusal(eqt::Kind::usage, [&] { make_cycle("rows", std::move(rows)); }), "columns");
}

TEST_CASE("a cycle is connected if its matrices are together", "[topology]") {
  const auto pair = [](eqt::Rank a, eqt::Rank b) {
    std::vector<Entry> entries = {{a, b, 0.5}, {b, a, 0.5}};
    for (eqt::Rank r = 0; r < 3; ++r) entries.push_back({r, r, r == a || r == b ? 0.5 : 1.0});
    return MixingMatrix(3, entries);
  };
  const auto matched = make_cycle("pairs", {pair(0, 1), pair(1, 2)});
  CHECK(matched->period() == 2);
  says(refusal(eqt::Kind::usage, [&] { make_cycle("pairs", {pair(0, 1), pair(0, 1)}); }), "rank 2");
  // Swapping twice is standing still, although each matrix alone is connected.
  const auto swap = [] { return MixingMatrix(2, {{0, 1, 1}, {1, 0, 1}}); };
  says(refusal(eqt::Kind::usage, [&] { make_cycle("swaps", {swap(), swap()}); }), "rank 1");
}

TEST_CASE("kinds and their names", "[topology]") {
  for (const GraphKindRow& kind : names_of(GraphKind{})) {
    CHECK(eqt::find_named<GraphKind>(kind.name) == &kind);
    CHECK(eqt::name_of(kind.value) == kind.name);
  }
}
