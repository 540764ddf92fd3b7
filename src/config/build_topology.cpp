#include "config/build_topology.hpp"

#include "config/graph_file.hpp"
#include "core/error.hpp"

namespace eqt::config {
namespace {

using topology::GraphKind;

topology::Weights weights_named(const std::string& name) {
  if (name == "uniform") return topology::Weights::uniform;
  if (name == "metropolis") return topology::Weights::metropolis;
  if (name == "given") return topology::Weights::given;
  EQT_CHECK(name == "auto", "no rule of weights is called {}", name);
  return topology::Weights::automatic;
}

/// Without the graph.
topology::Options options_of(const TopologyConfig& config) {
  return {.kind = topology::kind_named(config.kind),
          .directed = config.directed,
          .weights = weights_named(config.weights),
          .rows = config.rows};
}

/// The errors of `work` with `origin` before the sentence.
template <typename Work>
auto named(const std::string& origin, Work&& work) {
  try {
    return work();
  } catch (const Error& error) {
    fail(error.kind(), "{}: {}", origin, error.what());
  }
}

void check_directed(const TopologyConfig& config, GraphKind kind, const std::string& origin) {
  if (!config.directed || kind == GraphKind::ring || kind == GraphKind::exponential ||
      kind == GraphKind::one_peer_exponential)
    return;
  if (kind == GraphKind::graph)
    fail(Kind::usage,
         "{}: expected synchronization.topology.directed false for the kind \"graph\", whose file "
         "says it, found true; write \"directed\": true into the file",
         origin);
  fail(Kind::usage,
       "{}: expected synchronization.topology.directed false for the kind \"{}\", whose edges go "
       "both ways, found true; set synchronization.topology.kind to \"ring\" or \"exponential\"",
       origin, config.kind);
}

}  // namespace

void check_topology(const TopologyConfig& config, const std::string& origin) {
  const topology::Options options = options_of(config);
  const bool own = options.kind == GraphKind::graph;
  check_directed(config, options.kind, origin);
  if (own && config.file.empty())
    fail(Kind::usage,
         "{}: expected synchronization.topology.file with the kind \"graph\", found none; name the "
         "JSON file with the edges",
         origin);
  if (!own && !config.file.empty())
    fail(Kind::usage,
         "{}: expected no synchronization.topology.file with the kind \"{}\", found \"{}\"; set "
         "synchronization.topology.kind to \"graph\" or leave the file out",
         origin, config.kind, config.file);
  named(origin, [&] { topology::check_options(options); });
}

std::unique_ptr<topology::Topology> build_topology(const TopologyConfig& config, int ranks,
                                                   const std::string& graph_text) {
  topology::Options options = options_of(config);
  if (options.kind != GraphKind::graph) return topology::make_topology(options, ranks);
  options.graph = parse_graph(graph_text, config.file);
  return named(config.file, [&] { return topology::make_topology(options, ranks); });
}

}  // namespace eqt::config
