// SPDX-License-Identifier: Apache-2.0
#include "analyze/analyze.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <utility>

#include "config/build_topology.hpp"
#include "config/run_config.hpp"
#include "core/error.hpp"
#include "figures/draw.hpp"
#include "figures/drawing.hpp"
#include "topology/spectrum.hpp"

namespace eqt::analyze {
using figures::Curve;
using figures::curves_drawing;
using figures::draw_if_asked;

namespace {

using topology::GraphKind;
using topology::GraphKindRow;

constexpr const char* kOrigin = "analyze topology";

/// A graph of some ranks, with the figures that are shown.
struct GraphRow {
  config::TopologyConfig config;
  std::unique_ptr<topology::Topology> topology;
  topology::Spectrum spectrum;
};

/// The neighbours that a rank sends to in one step, and all directed edges of a period.
struct Extent {
  std::size_t fewest = 0, most = 0, edges = 0;
};

Extent extent_of(const topology::Topology& topology) {
  Extent extent{.fewest = static_cast<std::size_t>(topology.ranks())};
  std::set<std::pair<Rank, Rank>> edges;
  for (StepId step = 0; step < topology.period(); ++step) {
    for (Rank from = 0; from < topology.ranks(); ++from) {
      const auto neighbours = topology.at(step).out_neighbours(from);
      extent.fewest = std::min(extent.fewest, neighbours.size());
      extent.most = std::max(extent.most, neighbours.size());
      for (const topology::Neighbour& to : neighbours) edges.insert({from, to.rank});
    }
  }
  extent.edges = edges.size();
  return extent;
}

GraphRow analyzed(const config::TopologyConfig& config, int ranks,
                  const std::string& graph_text = {}) {
  GraphRow row{.config = config,
               .topology = config::build_topology(config, ranks, graph_text),
               .spectrum = {}};
  row.spectrum = topology::analyse(*row.topology);
  return row;
}

/// The largest |entry| by which a period's product misses the mean.
double distance_from_mean(const topology::Topology& topology) {
  double most = 0;
  for (const double value : topology::product_of_period(topology))
    most = std::max(most, std::abs(value - 1.0 / topology.ranks()));
  return most;
}

nlohmann::ordered_json to_json(const GraphRow& row) {
  const topology::MixingMatrix& matrix = row.topology->at(0);
  const Extent extent = extent_of(*row.topology);
  nlohmann::ordered_json line = {{"kind", name_of(row.config.kind)},
                                 {"name", row.topology->name()},
                                 {"ranks", row.topology->ranks()},
                                 {"weights", name_of(row.config.weights)},
                                 {"period", row.topology->period()},
                                 {"degree_min", extent.fewest},
                                 {"degree_max", extent.most},
                                 {"edges", extent.edges},
                                 {"symmetric", matrix.is_symmetric()},
                                 {"doubly_stochastic", matrix.is_doubly_stochastic()},
                                 {"spectral_gap", row.spectrum.spectral_gap},
                                 {"lambda_2", row.spectrum.second_modulus},
                                 {"lambda_min", nullptr},
                                 {"contraction", row.spectrum.contraction},
                                 {"beta", row.spectrum.beta},
                                 {"distance_from_mean", distance_from_mean(*row.topology)}};
  if (row.spectrum.smallest) line["lambda_min"] = *row.spectrum.smallest;
  return line;
}

/// 6 decimals; what rounding left of a 0 has no sign.
std::string decimals(double value) {
  return fmt::format("{:.6f}", std::round(value * 1e6) / 1e6 + 0.0);
}

void print_graphs(const std::vector<GraphRow>& rows) {
  fmt::print(
      "degree: ranks that one sends to in a step; gap: 1 - |lambda_2|; contraction: "
      "||W - J||_2;\nbeta: ||I - W||_2. Gap and contraction are those of a period's product.\n\n"
      "{:<22} {:>5} {:>6} {:>6} {:>6}  {:>8} {:>10} {:>11} {:>8} {:>10}\n",
      "graph", "ranks", "period", "degree", "edges", "gap", "|lambda_2|", "contraction", "beta",
      "lambda_min");
  for (const GraphRow& row : rows) {
    const Extent extent = extent_of(*row.topology);
    const topology::Spectrum& spectrum = row.spectrum;
    fmt::print("{:<22} {:>5} {:>6} {:>6} {:>6}  {:>8} {:>10} {:>11} {:>8} {:>10}\n",
               row.topology->name(), row.topology->ranks(), row.topology->period(),
               extent.fewest == extent.most ? fmt::format("{}", extent.most)
                                            : fmt::format("{}-{}", extent.fewest, extent.most),
               extent.edges, decimals(spectrum.spectral_gap), decimals(spectrum.second_modulus),
               decimals(spectrum.contraction), decimals(spectrum.beta),
               spectrum.smallest ? decimals(*spectrum.smallest) : "-");
  }
}

struct Column {
  const char* title;
  config::TopologyConfig config;
};

/// The graphs of the usual table.
std::vector<Column> usual_columns() {
  return {{"directed ring", {.kind = GraphKind::ring, .directed = true}},
          {"ring", {.kind = GraphKind::ring}},
          {"torus", {.kind = GraphKind::torus}},
          {"exponential", {.kind = GraphKind::exponential}},
          {"star", {.kind = GraphKind::star}},
          {"mesh", {.kind = GraphKind::mesh}}};
}

// Powers of two, where a period gives the mean exactly, and 5, where it does not.
constexpr int kOnePeerRanks[] = {2, 4, 5, 8, 16, 32};

void print_usual() {
  fmt::print("Spectral gap 1 - |lambda_2|\n\n{:>5}", "ranks");
  for (const Column& column : usual_columns()) fmt::print("  {:>13}", column.title);
  for (const int ranks : kAnalyzedRanks) {
    fmt::print("\n{:>5}", ranks);
    for (const Column& column : usual_columns())
      fmt::print("  {:>13.4f}", analyzed(column.config, ranks).spectrum.spectral_gap);
  }
  fmt::print(
      "\n\none-peer-exponential: product P of one period's matrices against the mean J\n\n"
      "{:>5}  {:>5}  {:>14}  {:>13}\n",
      "ranks", "steps", "||P - J||_2", "max |P - J|");
  for (const int ranks : kOnePeerRanks) {
    const GraphRow row = analyzed({.kind = GraphKind::one_peer_exponential}, ranks);
    fmt::print("{:>5}  {:>5}  {:>14.4g}  {:>13.4g}\n", ranks, row.topology->period(),
               row.spectrum.contraction, distance_from_mean(*row.topology));
  }
}

std::vector<GraphRow> usual_rows() {
  std::vector<GraphRow> rows;
  for (const Column& column : usual_columns())
    for (const int ranks : kAnalyzedRanks) rows.push_back(analyzed(column.config, ranks));
  for (const int ranks : kOnePeerRanks)
    rows.push_back(analyzed({.kind = GraphKind::one_peer_exponential}, ranks));
  return rows;
}

bool takes_direction(const GraphKindRow& kind) {
  return kind.direction == GraphKindRow::Direction::as_asked;
}

/// The kinds to show. Options that none of them takes are refused.
std::vector<GraphKindRow> kinds_of(const AnalyzeTopologyCommand& command) {
  std::vector<GraphKindRow> kinds;
  for (const std::string& name : command.kinds) kinds.push_back(*find_named<GraphKind>(name));
  if (kinds.empty())
    for (const GraphKindRow& kind : names_of(GraphKind{}))
      if (kind.users_own == !command.file.empty()) kinds.push_back(kind);
  if (command.directed && std::ranges::none_of(kinds, takes_direction))
    fail(Kind::usage,
         "{}: expected --kind ring with --directed, found only kinds whose edges have their "
         "directions; leave --directed out",
         kOrigin);
  const bool has_own = std::ranges::any_of(kinds, &GraphKindRow::users_own);
  if (!command.file.empty() && !has_own)
    fail(Kind::usage,
         "{}: expected --kind graph with --file, found other kinds only; leave --kind out",
         kOrigin);
  if (command.file.empty() && has_own)
    fail(Kind::usage,
         "{}: expected --file with --kind graph, found none; name the JSON file with the "
         "edges",
         kOrigin);
  return kinds;
}

/// The graph of one kind for all numbers of ranks that were asked for.
void add_rows(const AnalyzeTopologyCommand& command, const config::TopologyConfig& config,
              std::vector<GraphRow>& rows) {
  std::vector<int> sizes = command.ranks;
  std::string text;
  config::check_topology(config, kOrigin);
  if (!config.file.empty()) {
    text = config::read_graph_file(config.file);
    if (sizes.empty()) sizes = {config::parse_graph(text, config.file).ranks};
  }
  if (sizes.empty()) sizes.assign(kAnalyzedRanks.begin(), kAnalyzedRanks.end());
  for (const int ranks : sizes) rows.push_back(analyzed(config, ranks, text));
}

/// If all kinds are asked for, those that do not exist with these options are left out.
std::vector<GraphRow> asked_rows(const AnalyzeTopologyCommand& command) {
  std::vector<GraphRow> rows;
  std::optional<Error> refusal;
  for (const GraphKindRow& kind : kinds_of(command)) {
    config::TopologyConfig config{.kind = kind.value,
                                  .directed = command.directed && takes_direction(kind),
                                  .weights = find_named<topology::Weights>(command.weights)->value,
                                  .rows = command.rows,
                                  .file = kind.users_own ? command.file : ""};
    try {
      add_rows(command, config, rows);
    } catch (const Error& error) {
      if (!command.kinds.empty() || !command.file.empty() || error.kind() != Kind::usage) throw;
      refusal.emplace(error);
    }
  }
  if (rows.empty() && refusal) throw *refusal;
  return rows;
}

/// A curve per graph that exists for several numbers of ranks.
figures::Drawing plot_of(const std::vector<GraphRow>& rows) {
  std::vector<Curve> curves;
  for (const GraphRow& row : rows) {
    const std::string name =
        row.config.directed ? "directed ring" : std::string(name_of(row.config.kind));
    auto curve = std::ranges::find(curves, name, &Curve::title);
    if (curve == curves.end()) curve = curves.insert(curves.end(), {.title = name, .points = {}});
    curve->points.emplace_back(row.topology->ranks(), row.spectrum.spectral_gap);
  }
  return curves_drawing({.title = "Spectral gap of a period",
                         .x = "ranks",
                         .y = "1 - |lambda_2|",
                         .log_x = true,
                         .log_y = true},
                        curves);
}

}  // namespace

void run_analyze_topology(const AnalyzeTopologyCommand& command) {
  const bool usual = command.kinds.empty() && command.ranks.empty() && command.file.empty() &&
                     !command.directed && command.rows == 0 &&
                     command.weights == name_of(topology::Weights::automatic);
  const bool plots = !command.output.plot.empty(), text = !command.output.json;
  if (usual && text) print_usual();
  if (usual && text && !plots) return;
  const std::vector<GraphRow> rows = usual ? usual_rows() : asked_rows(command);
  if (text && !usual) print_graphs(rows);
  if (!text)
    for (const GraphRow& row : rows) fmt::print("{}\n", to_json(row).dump());
  draw_if_asked(command.output.plot, [&] { return plot_of(rows); });
}

}  // namespace eqt::analyze
