// SPDX-License-Identifier: Apache-2.0
#include "topology/topology.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "core/error.hpp"
#include "topology/connectivity.hpp"
#include "topology/graphs.hpp"

namespace eqt::topology {
namespace {

using Edge = std::pair<Rank, Rank>;  // from, to
using Counts = std::map<Edge, int>;

Counts counted(const Links& links) {
  Counts counts;
  for (const Link& link : links) ++counts[{link.from, link.to}];
  return counts;
}

double& at(std::vector<double>& by_rank, Rank rank) {
  return by_rank[static_cast<std::size_t>(rank)];
}

/// Adds what each rank keeps: the rest of its column. Rounding may make it slightly negative.
void add_rests(int ranks, std::vector<Entry>& entries) {
  std::vector<double> given(static_cast<std::size_t>(ranks), 0.0);
  for (const Entry& entry : entries) at(given, entry.from) += entry.weight;
  for (Rank rank = 0; rank < ranks; ++rank)
    entries.push_back({rank, rank, std::max(0.0, 1 - at(given, rank))});
}

/// W[i][j] = 1 / (outdegree(j) + 1) for each link j -> i and for i = j; double edges add up.
/// Columns sum to 1 on every graph, rows too where all in- and outdegrees are equal.
/// Source: M. Assran et al., ICML 2019.
MixingMatrix uniform_weights(int ranks, const Links& links) {
  std::vector<double> degree(static_cast<std::size_t>(ranks), 0.0);
  for (const Link& link : links) ++at(degree, link.from);
  std::vector<Entry> entries;
  for (const auto& [edge, count] : counted(links))
    entries.push_back({edge.first, edge.second, count / (at(degree, edge.first) + 1)});
  for (Rank rank = 0; rank < ranks; ++rank)
    entries.push_back({rank, rank, 1 / (at(degree, rank) + 1)});
  return {ranks, std::move(entries)};
}

/// W[i][j] = 1 / (1 + max(degree(i), degree(j))) for each edge, W[i][i] = the rest; double edges
/// count once. Symmetric and doubly stochastic on every undirected graph.
/// Source: L. Xiao, S. Boyd, S. Lall, IPSN 2005 (Metropolis-Hastings).
/// @pre links stand in both directions
MixingMatrix metropolis_weights(int ranks, const Links& links) {
  const Counts edges = counted(links);
  std::vector<double> degree(static_cast<std::size_t>(ranks), 0.0);
  for (const auto& [edge, count] : edges) ++at(degree, edge.first);
  std::vector<Entry> entries;
  for (const auto& [edge, count] : edges) {
    const auto [from, to] = edge;
    entries.push_back({from, to, 1 / (1 + std::max(at(degree, from), at(degree, to)))});
  }
  add_rests(ranks, entries);
  return {ranks, std::move(entries)};
}

/// The weights of the edges, W[i][i] = the rest of column i.
/// @throws Error{usage} if a rank gives away more than 1
MixingMatrix given_weights(const Graph& graph) {
  std::vector<Entry> entries;
  for (const GraphEdge& edge : graph.edges) {
    entries.push_back({edge.from, edge.to, edge.weight});
    if (!graph.directed) entries.push_back({edge.to, edge.from, edge.weight});
  }
  std::vector<double> given(static_cast<std::size_t>(graph.ranks), 0.0);
  for (const Entry& entry : entries) at(given, entry.from) += entry.weight;
  for (Rank rank = 0; rank < graph.ranks; ++rank)
    if (at(given, rank) > 1 + kSumTolerance)
      fail(Kind::usage,
           "topology graph: expected weights of at most 1 in sum on the edges that leave a rank, "
           "found {} for rank {}; divide them by at least that, or leave all weights out",
           at(given, rank), rank);
  add_rests(graph.ranks, entries);
  return {graph.ranks, std::move(entries)};
}

class Cycle final : public Topology {
 public:
  Cycle(std::string name, std::vector<MixingMatrix> matrices)
      : name_(std::move(name)), matrices_(std::move(matrices)) {}

  std::string_view name() const noexcept override { return name_; }
  int ranks() const noexcept override { return matrices_.front().ranks(); }
  StepId period() const noexcept override { return matrices_.size(); }
  const MixingMatrix& at(StepId step) const override {
    return matrices_[static_cast<std::size_t>(step % matrices_.size())];
  }

 private:
  std::string name_;
  std::vector<MixingMatrix> matrices_;
};

void check_consensus(const std::string& name, const std::vector<MixingMatrix>& matrices) {
  std::vector<Adjacency> rounds;
  for (const MixingMatrix& matrix : matrices) rounds.push_back(edges_of(matrix));
  const Adjacency edges = composed(rounds);
  if (const std::string why = why_unconnected(edges); !why.empty())
    fail(Kind::usage,
         "topology {}: expected edges that connect every rank to every other, found that {}; add "
         "edges, or set synchronization.topology.kind to \"ring\"",
         name, why);
  if (const int period = cycle_period(edges); period != 1)
    fail(Kind::usage,
         "topology {}: expected a rank that keeps a part of its value, found that values circulate "
         "with period {}; use weights below 1 on some edge",
         name, period);
}

bool is_weighted(const Graph& graph) {
  return std::ranges::any_of(graph.edges, [](const GraphEdge& e) { return e.weight != 0; });
}

bool is_directed(const Options& options) {
  const GraphKindRow& kind = row_of(options.kind);
  if (kind.users_own) return options.graph.directed;
  return kind.direction == GraphKindRow::Direction::one_way ||
         (kind.direction == GraphKindRow::Direction::as_asked && options.directed);
}

/// The weights that `automatic` chooses.
Weights rule_of(const Options& options) {
  if (options.weights != Weights::automatic) return options.weights;
  const GraphKindRow& kind = row_of(options.kind);
  if (!kind.users_own) return kind.usual;
  if (is_weighted(options.graph)) return Weights::given;
  return options.graph.directed ? Weights::uniform : Weights::metropolis;
}

void check_rule(const Options& options) {
  const Weights rule = rule_of(options);
  const bool own = row_of(options.kind).users_own;
  const std::string_view name = name_of(options.kind);
  if (rule == Weights::given && !own)
    fail(Kind::usage,
         "topology {}: expected synchronization.topology.weights \"auto\", \"uniform\" or "
         "\"metropolis\", found \"given\", which is for the kind \"graph\"; set it to \"auto\"",
         name);
  if (rule == Weights::metropolis && is_directed(options))
    fail(Kind::usage,
         "topology {}: expected synchronization.topology.weights \"auto\" or \"uniform\" on a "
         "directed graph, found \"metropolis\", which needs edges both ways; set it to \"auto\"",
         name);
  if (rule != Weights::given && own && is_weighted(options.graph))
    fail(Kind::usage,
         "topology {}: expected synchronization.topology.weights \"auto\" or \"given\" for edges "
         "that have weights, found \"{}\"; set it to \"auto\" or leave the weights out",
         name, name_of(rule));
}

void check_edge(const GraphEdge& edge, int ranks) {
  if (edge.from < 0 || edge.from >= ranks || edge.to < 0 || edge.to >= ranks)
    fail(Kind::usage,
         "topology graph: expected edges between ranks 0 to {}, found one from {} to {}", ranks - 1,
         edge.from, edge.to);
  if (edge.from == edge.to)
    fail(Kind::usage,
         "topology graph: expected edges between two ranks, found one from {} to itself; leave it "
         "out: a rank keeps what its edges do not give away",
         edge.from);
}

/// Edges are in range and stand once, and if one of them has a weight, all have.
void check_graph(const Graph& graph, Weights rule) {
  std::set<std::pair<Rank, Rank>> seen;
  for (const GraphEdge& edge : graph.edges) {
    check_edge(edge, graph.ranks);
    auto ends = std::pair(edge.from, edge.to);
    if (!graph.directed) ends = std::minmax({edge.from, edge.to});
    if (!seen.insert(ends).second)
      fail(Kind::usage,
           "topology graph: expected each edge once, found the one from {} to {} twice{}; leave "
           "one out",
           edge.from, edge.to, graph.directed ? "" : " (undirected edges hold for both ways)");
    if (rule == Weights::given && !(edge.weight > 0 && edge.weight <= 1))
      fail(Kind::usage,
           "topology graph: expected a weight above 0 and at most 1 on every edge, found {} on the "
           "one from {} to {}; give all edges a weight, or none",
           edge.weight == 0 ? std::string("none") : fmt::format("{}", edge.weight), edge.from,
           edge.to);
  }
}

MixingMatrix weighted(const Options& options, int ranks, const Links& links) {
  switch (rule_of(options)) {
    case Weights::given:
      return given_weights(options.graph);
    case Weights::metropolis:
      return metropolis_weights(ranks, links);
    default:
      return uniform_weights(ranks, links);
  }
}

}  // namespace

void check_options(const Options& options) {
  check_rule(options);
  if (row_of(options.kind).users_own) check_graph(options.graph, rule_of(options));
}

std::unique_ptr<Topology> make_cycle(std::string name, std::vector<MixingMatrix> matrices) {
  EQT_CHECK(!matrices.empty(), "topology {}: no matrix", name);
  for (const MixingMatrix& matrix : matrices) {
    EQT_CHECK(matrix.ranks() == matrices.front().ranks(),
              "topology {}: matrices of {} and {} ranks", name, matrices.front().ranks(),
              matrix.ranks());
    if (!matrix.is_column_stochastic())
      fail(Kind::usage,
           "topology {}: expected columns that sum to 1, so that no rank's values are lost, found "
           "rows only; transpose the weights",
           name);
  }
  check_consensus(name, matrices);
  return std::make_unique<Cycle>(std::move(name), std::move(matrices));
}

std::unique_ptr<Topology> make_topology(const Options& options, int ranks) {
  if (ranks < 1) fail(Kind::usage, "topology: expected at least 1 rank, found {}", ranks);
  check_options(options);
  const GraphKindRow& kind = row_of(options.kind);
  if (kind.users_own && options.graph.ranks != ranks)
    fail(Kind::usage,
         "topology graph: expected a graph of as many ranks as the job has, {}, found one of {}; "
         "start {} ranks or choose another graph",
         ranks, options.graph.ranks, options.graph.ranks);
  std::string name(kind.name);
  std::vector<MixingMatrix> matrices;
  for (const Links& links : kind.links(options, ranks, name))
    matrices.push_back(weighted(options, ranks, links));
  return make_cycle(std::move(name), std::move(matrices));
}

}  // namespace eqt::topology
