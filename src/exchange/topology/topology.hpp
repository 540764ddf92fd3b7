// SPDX-License-Identifier: Apache-2.0
// Which ranks exchange, and with which weights: graphs by name, or the user's own.

#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/catalogue.hpp"
#include "core/layout.hpp"
#include "topology/graphs.hpp"
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

/// Says how edges get their weights; see docs/topologies.md.
enum class Weights { automatic, uniform, metropolis, given };
std::span<const Named<Weights>> names_of(Weights);

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

/// A kind of graph. Adding one: an enumerator above, and its row in kinds.cpp.
struct GraphKindRow {
  GraphKind value;
  std::string_view name, about;
  /// The edges of each matrix of the cycle; a static graph has one. `name` is the kind's, to which
  /// it may add what Topology::name() shall say.
  /// @throws Error{usage} if the graph does not exist for this many ranks
  std::vector<Links> (*links)(const Options& options, int ranks, std::string& name);
  Weights usual = Weights::uniform;  // what `automatic` stands for, unless the graph is the user's
  enum class Direction { both_ways, one_way, as_asked } direction = Direction::both_ways;
  bool has_rows = false;   // it reads Options::rows
  bool users_own = false;  // Options::graph says edges, direction and, if it has them, weights
};
/// Returns all rows, in the order of the documentation.
std::span<const GraphKindRow> names_of(GraphKind);

/// Checks what does not depend on the number of ranks: the rule of weights suits the graph.
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
