// SPDX-License-Identifier: Apache-2.0
// The kinds of graphs, one row each.

#include "topology/topology.hpp"

namespace eqt::topology {
namespace {

using Direction = GraphKindRow::Direction;

std::vector<Links> ring(const Options& options, int ranks, std::string& name) {
  if (options.directed) name = "directed ring";
  return {ring_links(ranks, options.directed)};
}

Shape named_shape(const Options& options, int ranks, int least_rows, std::string& name) {
  const Shape shape = lattice_shape(name.c_str(), ranks, options.rows, least_rows);
  name += fmt::format(" {} x {}", shape.rows, shape.columns);
  return shape;
}

// On a torus of one row each rank would be its own neighbour; a mesh of one row is a path.
std::vector<Links> torus(const Options& options, int ranks, std::string& name) {
  return {torus_links(named_shape(options, ranks, 2, name))};
}

std::vector<Links> mesh(const Options& options, int ranks, std::string& name) {
  return {mesh_links(named_shape(options, ranks, 1, name))};
}

std::vector<Links> exponential(const Options&, int ranks, std::string&) {
  return {exponential_links(ranks)};
}

std::vector<Links> one_peer_exponential(const Options&, int ranks, std::string&) {
  if (ranks == 1) return {Links{}};
  std::vector<Links> rounds;
  for (int round = 0; round < exponential_degree(ranks); ++round)
    rounds.push_back(one_peer_links(ranks, round));
  return rounds;
}

std::vector<Links> complete(const Options&, int ranks, std::string&) {
  return {complete_links(ranks)};
}

std::vector<Links> star(const Options&, int ranks, std::string&) { return {star_links(ranks)}; }

/// The user's edges, in both directions if they stand for both.
std::vector<Links> graph(const Options& options, int, std::string&) {
  Links links;
  for (const GraphEdge& edge : options.graph.edges) {
    links.push_back({edge.from, edge.to});
    if (!options.graph.directed) links.push_back({edge.to, edge.from});
  }
  return {links};
}

constexpr GraphKindRow kKinds[] = {
    {.value = GraphKind::ring,
     .name = "ring",
     .about = "the ranks before and after; directed: the one after",
     .links = ring,
     .direction = Direction::as_asked},
    {.value = GraphKind::torus,
     .name = "torus",
     .about = "rows x columns with wrap-around, four neighbours each",
     .links = torus,
     .has_rows = true},
    {.value = GraphKind::exponential,
     .name = "exponential",
     .about = "the ranks 1, 2, 4, ... further on; directed",
     .links = exponential,
     .direction = Direction::one_way},
    {.value = GraphKind::one_peer_exponential,
     .name = "one-peer-exponential",
     .about = "one of these in each step, in turn; directed",
     .links = one_peer_exponential,
     .direction = Direction::one_way},
    {.value = GraphKind::complete,
     .name = "complete",
     .about = "every rank with every other",
     .links = complete},
    {.value = GraphKind::star,
     .name = "star",
     .about = "rank 0 with every other",
     .links = star,
     .usual = Weights::metropolis},
    {.value = GraphKind::mesh,
     .name = "mesh",
     .about = "rows x columns without wrap-around",
     .links = mesh,
     .usual = Weights::metropolis,
     .has_rows = true},
    {.value = GraphKind::graph,
     .name = "graph",
     .about = "the edges in synchronization.topology.file",
     .links = graph,
     .users_own = true},
};

constexpr Named<Weights> kWeights[] = {
    {Weights::automatic, "auto",
     "uniform; star, mesh and undirected graphs: metropolis; edges with weights: given"},
    {Weights::uniform, "uniform", "the same weight for each neighbour and the rank itself"},
    {Weights::metropolis, "metropolis",
     "1 / (1 + the larger number of neighbours), the rest for the rank itself; undirected only"},
    {Weights::given, "given", "those of the edges in the file, the rest for the rank itself"},
};

}  // namespace

std::span<const GraphKindRow> names_of(GraphKind) { return kKinds; }
std::span<const Named<Weights>> names_of(Weights) { return kWeights; }

}  // namespace eqt::topology
