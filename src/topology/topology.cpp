#include "topology/topology.hpp"

#include <algorithm>
#include <set>
#include <tuple>
#include <utility>

#include "core/error.hpp"
#include "topology/connectivity.hpp"
#include "topology/graphs.hpp"
#include "topology/weights.hpp"

namespace eqt::topology {
namespace {

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
         "topology {}: expected a rank that keeps some of its own, found that values go round "
         "for ever with period {}; give away less than 1 somewhere",
         name, period);
}

/// The user's edges in both directions if they stand for both.
Links links_of(const Graph& graph) {
  Links links;
  for (const GraphEdge& edge : graph.edges) {
    links.push_back({edge.from, edge.to});
    if (!graph.directed) links.push_back({edge.to, edge.from});
  }
  return links;
}

bool is_weighted(const Graph& graph) {
  return std::ranges::any_of(graph.edges, [](const GraphEdge& e) { return e.weight != 0; });
}

bool is_directed(const Options& options) {
  switch (options.kind) {
    case GraphKind::ring:
      return options.directed;
    case GraphKind::exponential:
    case GraphKind::one_peer_exponential:
      return true;
    case GraphKind::graph:
      return options.graph.directed;
    default:
      return false;
  }
}

/// What `automatic` stands for.
Weights rule_of(const Options& options) {
  if (options.weights != Weights::automatic) return options.weights;
  switch (options.kind) {
    case GraphKind::star:
    case GraphKind::mesh:
      return Weights::metropolis;
    case GraphKind::graph:
      if (is_weighted(options.graph)) return Weights::given;
      return options.graph.directed ? Weights::uniform : Weights::metropolis;
    default:
      return Weights::uniform;
  }
}

void check_rule(const Options& options) {
  const Weights rule = rule_of(options);
  const bool own = options.kind == GraphKind::graph;
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
         name, rule == Weights::uniform ? "uniform" : "metropolis");
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

Links links_of(const Options& options, int ranks, std::string& name) {
  const bool torus = options.kind == GraphKind::torus;
  switch (options.kind) {
    case GraphKind::ring:
      if (options.directed) name = "directed ring";
      return ring_links(ranks, options.directed);
    case GraphKind::torus:
    case GraphKind::mesh: {
      // A mesh of one row is a path; on a torus of one row each rank would be its own neighbour.
      const Shape shape = lattice_shape(name.c_str(), ranks, options.rows, torus ? 2 : 1);
      name += fmt::format(" {} x {}", shape.rows, shape.columns);
      return torus ? torus_links(shape) : mesh_links(shape);
    }
    case GraphKind::exponential:
      return exponential_links(ranks);
    case GraphKind::one_peer_exponential:
      return {};  // by rounds
    case GraphKind::complete:
      return complete_links(ranks);
    case GraphKind::star:
      return star_links(ranks);
    case GraphKind::graph:
      return links_of(options.graph);
  }
  fail(Kind::bug, "topology: expected a kind, found number {}", static_cast<int>(options.kind));
}

std::vector<MixingMatrix> one_peer_matrices(int ranks) {
  std::vector<MixingMatrix> matrices;
  for (int round = 0; round < exponential_degree(ranks); ++round)
    matrices.push_back(uniform_weights(ranks, one_peer_links(ranks, round)));
  if (matrices.empty()) matrices.push_back(uniform_weights(ranks, {}));
  return matrices;
}

}  // namespace

const std::vector<KindName>& list_kinds() {
  static const std::vector<KindName> kinds = {
      {GraphKind::ring, "ring"},
      {GraphKind::torus, "torus"},
      {GraphKind::exponential, "exponential"},
      {GraphKind::one_peer_exponential, "one-peer-exponential"},
      {GraphKind::complete, "complete"},
      {GraphKind::star, "star"},
      {GraphKind::mesh, "mesh"},
      {GraphKind::graph, "graph"},
  };
  return kinds;
}

GraphKind kind_named(std::string_view name) {
  const auto found = std::ranges::find(list_kinds(), name, &KindName::name);
  EQT_CHECK(found != list_kinds().end(), "no kind of graph is called {}", name);
  return found->kind;
}

std::string_view name_of(GraphKind kind) {
  return std::ranges::find(list_kinds(), kind, &KindName::kind)->name;
}

void check_options(const Options& options) {
  check_rule(options);
  if (options.kind == GraphKind::graph) check_graph(options.graph, rule_of(options));
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
  if (options.kind == GraphKind::graph && options.graph.ranks != ranks)
    fail(Kind::usage,
         "topology graph: expected a graph of as many ranks as the job has, {}, found one of {}; "
         "start {} ranks or choose another graph",
         ranks, options.graph.ranks, options.graph.ranks);
  std::string name(name_of(options.kind));
  if (options.kind == GraphKind::one_peer_exponential)
    return make_cycle(std::move(name), one_peer_matrices(ranks));
  const Links links = links_of(options, ranks, name);
  std::vector<MixingMatrix> matrix;
  switch (rule_of(options)) {
    case Weights::given:
      matrix.push_back(given_weights(options.graph));
      break;
    case Weights::metropolis:
      matrix.push_back(metropolis_weights(ranks, links));
      break;
    default:
      matrix.push_back(uniform_weights(ranks, links));
  }
  return make_cycle(std::move(name), std::move(matrix));
}

}  // namespace eqt::topology
