// SPDX-License-Identifier: Apache-2.0
#include "config/build_topology.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <vector>

#include "config/document.hpp"
#include "config/nearest.hpp"
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

constexpr const char* kExample = "as in {\"ranks\": 3, \"edges\": [[0, 1], [1, 2], [2, 0]]}";

void check_keys(const Json& document, const std::string& origin) {
  const std::vector<std::string> keys = {"ranks", "directed", "edges"};
  for (const auto& [key, value] : document.items()) {
    if (std::ranges::find(keys, key) != keys.end()) continue;
    const std::string* const near = close_name(key, keys);
    fail(Kind::usage, "{}: unknown key {} in a graph; {}", origin, shown_text(key),
         near != nullptr ? fmt::format("the nearest is \"{}\"", *near)
                         : fmt::format("its keys are {}", fmt::join(keys, ", ")));
  }
  for (const char* const key : {"ranks", "edges"})
    if (!document.contains(key))
      fail(Kind::usage, "{}: expected the key \"{}\" in a graph, found none; write it {}", origin,
           key, kExample);
}

/// The integer `value` in [least, most], whatever its size or sign.
bool is_integer(const Json& value, int least, int most) {
  if (!value.is_number_integer()) return false;
  if (value.is_number_unsigned() && value.get<std::uint64_t>() > static_cast<unsigned>(most))
    return false;
  const auto number = value.get<std::int64_t>();
  return number >= least && number <= most;
}

topology::GraphEdge edge_of(const Json& value, std::size_t index, int ranks,
                            const std::string& origin) {
  if (!value.is_array() || value.size() < 2 || value.size() > 3)
    fail(Kind::usage, "{}: expected [from, to] or [from, to, weight] as edge {}, found {}; {}",
         origin, index, shown(value), kExample);
  for (const std::size_t end : {0u, 1u})
    if (!is_integer(value[end], 0, ranks - 1))
      fail(Kind::usage, "{}: expected ranks from 0 to {} at the ends of edge {}, found {} in {}",
           origin, ranks - 1, index, shown(value[end]), shown(value));
  topology::GraphEdge edge{value[0].get<Rank>(), value[1].get<Rank>()};
  if (value.size() == 2) return edge;
  const double weight = value[2].is_number() ? value[2].get<double>() : 0;
  if (!(weight > 0 && weight <= 1))
    fail(Kind::usage,
         "{}: expected a weight in (0, 1] on edge {}, found {} in {}; leave an edge without weight "
         "out",
         origin, index, shown(value[2]), shown(value));
  edge.weight = weight;
  return edge;
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

std::string read_graph_file(const std::string& path) {
  return read_document(path, "synchronization.topology.file", "a graph");
}

topology::Graph parse_graph(const std::string& text, const std::string& origin) {
  const Json document = parse_document(text, origin, "graph");
  check_keys(document, origin);
  const Json& ranks = document["ranks"];
  if (!is_integer(ranks, 1, kMaxGraphRanks))
    fail(Kind::usage, "{}: expected ranks in [1, {}], found {}", origin, kMaxGraphRanks,
         shown(ranks));
  const Json directed = document.value("directed", Json(false));
  if (!directed.is_boolean())
    fail(Kind::usage, "{}: expected directed true or false, found {}", origin, shown(directed));
  const Json& edges = document["edges"];
  if (!edges.is_array())
    fail(Kind::usage, "{}: expected a list of edges, found {}; write them {}", origin, shown(edges),
         kExample);
  topology::Graph graph{.ranks = ranks.get<int>(), .directed = directed.get<bool>(), .edges = {}};
  for (std::size_t i = 0; i < edges.size(); ++i)
    graph.edges.push_back(edge_of(edges[i], i, graph.ranks, origin));
  return graph;
}

}  // namespace eqt::config
