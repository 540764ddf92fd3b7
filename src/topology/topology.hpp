// Who talks to whom, and with which weights: graphs by name, or the user's own.

#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/layout.hpp"
#include "topology/mixing_matrix.hpp"

namespace eqt::topology {

/// A mixing matrix for every step; time-varying topologies use theirs in turn.
class Topology {
 public:
  virtual ~Topology() = default;
  /// "directed ring", "torus 4 x 8": the graph, without the number of ranks.
  virtual std::string_view name() const noexcept = 0;
  virtual int ranks() const noexcept = 0;
  /// Matrices that are used in turn; at(step) == at(step + period()).
  virtual StepId period() const noexcept = 0;
  /// The matrix of a step; lives as long as the topology.
  virtual const MixingMatrix& at(StepId step) const = 0;

  bool is_static() const noexcept { return period() == 1; }
};

enum class GraphKind {
  ring,
  torus,
  exponential,
  one_peer_exponential,
  complete,
  star,
  mesh,
  graph,  // the user's own
};

/// How edges get their weights; see weights.hpp.
enum class Weights { automatic, uniform, metropolis, given };

/// An edge of the user's own graph.
struct GraphEdge {
  Rank from = 0;
  Rank to = 0;
  double weight = 0;  // W[to][from]; 0 = not given
};

/// The user's own graph. Undirected: an edge stands for both directions, with the same weight.
struct Graph {
  int ranks = 0;
  bool directed = false;
  std::vector<GraphEdge> edges = {};
};

struct Options {
  GraphKind kind = GraphKind::ring;
  bool directed = false;  // ring
  Weights weights = Weights::automatic;
  int rows = 0;      // torus, mesh: 0 = as square as possible
  Graph graph = {};  // GraphKind::graph
};

struct KindName {
  GraphKind kind;
  std::string name;  // as in configs: "one-peer-exponential"
};

/// Every kind with its name, in the order of the documentation.
const std::vector<KindName>& list_kinds();
/// @throws Error{bug} if there is no such kind
GraphKind kind_named(std::string_view name);
std::string_view name_of(GraphKind kind);

/// What follows from the options without a number of ranks: the rule of weights fits the graph.
/// @throws Error{usage}
void check_options(const Options& options);

/// @throws Error{usage} if the graph does not exist for this many ranks, is not connected, or its
/// weights do not sum: what is wrong and a choice that works. Property: at(step) has columns that
/// sum to 1, and the product over a period is primitive.
std::unique_ptr<Topology> make_topology(const Options& options, int ranks);

/// Matrices of one size that are used in turn, one or more.
/// @throws Error{usage} if columns do not sum to 1 or ranks would never reach consensus
std::unique_ptr<Topology> make_cycle(std::string name, std::vector<MixingMatrix> matrices);

}  // namespace eqt::topology
