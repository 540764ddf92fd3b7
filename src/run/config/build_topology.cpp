// SPDX-License-Identifier: Apache-2.0
#include "config/build_topology.hpp"

#include "config/graph_file.hpp"
#include "core/error.hpp"

namespace eqt::config {
namespace {

/// Reads all but the graph.
topology::Options options_of(const TopologyConfig& config) {
  return {.kind = config.kind,
          .directed = config.directed,
          .weights = config.weights,
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

void check_directed(const TopologyConfig& config, const std::string& origin) {
  const topology::GraphKindRow& kind = row_of(config.kind);
  if (!config.directed) return;
  if (kind.users_own)
    fail(Kind::usage,
         "{}: expected synchronization.topology.directed false for the kind \"{}\", whose file "
         "says it, found true; write \"directed\": true into the file",
         origin, kind.name);
  if (kind.direction == topology::GraphKindRow::Direction::both_ways)
    fail(Kind::usage,
         "{}: expected synchronization.topology.directed false for the kind \"{}\", whose edges go "
         "both ways, found true; set synchronization.topology.kind to \"ring\" or \"exponential\"",
         origin, kind.name);
}

}  // namespace

void check_topology(const TopologyConfig& config, const std::string& origin) {
  const topology::Options options = options_of(config);
  const bool own = row_of(options.kind).users_own;
  check_directed(config, origin);
  if (own && config.file.empty())
    fail(Kind::usage,
         "{}: expected synchronization.topology.file with the kind \"graph\", found none; name the "
         "JSON file with the edges",
         origin);
  if (!own && !config.file.empty())
    fail(Kind::usage,
         "{}: expected no synchronization.topology.file with the kind \"{}\", found \"{}\"; set "
         "synchronization.topology.kind to \"graph\" or leave the file out",
         origin, name_of(config.kind), config.file);
  named(origin, [&] { topology::check_options(options); });
}

std::unique_ptr<topology::Topology> build_topology(const TopologyConfig& config, int ranks,
                                                   const std::string& graph_text) {
  topology::Options options = options_of(config);
  if (!row_of(options.kind).users_own) return topology::make_topology(options, ranks);
  options.graph = parse_graph(graph_text, config.file);
  return named(config.file, [&] { return topology::make_topology(options, ranks); });
}

}  // namespace eqt::config
