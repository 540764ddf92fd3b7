// SPDX-License-Identifier: Apache-2.0
// Tables 3, 5 and 6 of Aketi, Kodge and Roy (2022): test accuracy by data set, graph, compression
// and skew.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>
#include <tuple>

#include "report/paper_tables.hpp"
#include "report/quantities.hpp"
#include "report/values.hpp"

namespace eqt::report {
using figures::Cell;
using figures::Column;
using figures::drop_empty_columns;
using figures::number_cell;
using figures::spread_cell;
using figures::text_cell;

namespace {

using Type = Column::Type;
constexpr Digits kGigabytes{-1, 4};
constexpr double kGiga = 1e9;

/// A row: the conditions; its cells are one group per method.
struct TrainingRow {
  std::string dataset, network, graph, compressor, variant;
  int nodes;
  double left_out, skew;
  std::map<std::string, const Group*> groups;

  auto key() const {
    return std::tuple(dataset, network, graph, nodes, std::round(left_out), compressor, skew,
                      variant);
  }
};

/// "choco-sgd fp32".
std::string method_of(const Run& run) {
  return run.algorithm + " " + run.setting("model.precision", "fp32");
}

TrainingRow row_of(const Run& run) {
  TrainingRow row{paper_data_of(run),
                  paper_network_of(run),
                  paper_graph(run),
                  run.compressor,
                  "",
                  run.ranks,
                  paper_left_out(run),
                  0,
                  {}};
  if (run.setting("data.partition.kind") == "skew")
    row.skew = std::strtod(run.setting("data.partition.skew", "0").c_str(), nullptr);
  row.variant = normalization_of(run);
  const auto add = [&](const std::string& words) {
    row.variant += (row.variant.empty() ? "" : ", ") + words;
  };
  if (run.setting("optimizer.momentum_kind", "local") != "local")
    add(run.setting("optimizer.momentum_kind") + " momentum");
  // "auto" is the compressor's own, which the row has.
  const std::string feedback = run.setting("synchronization.error_feedback", "auto");
  if (feedback == "ef14" || feedback == "ef21") add(feedback);
  return row;
}

/// Groups that differ in settings that the layout does not show have separate rows.
std::vector<TrainingRow> training_rows_of(const std::vector<Group>& groups) {
  std::vector<TrainingRow> rows;
  for (const Group& group : groups) {
    const TrainingRow row = row_of(group.first());
    const std::string method = method_of(group.first());
    const auto has_room = [&](const TrainingRow& other) {
      return other.key() == row.key() && !other.groups.contains(method);
    };
    auto found = std::ranges::find_if(rows, has_room);
    if (found == rows.end()) found = rows.insert(rows.end(), row);
    found->groups[method] = &group;
  }
  std::ranges::stable_sort(rows, {}, [](const TrainingRow& row) { return row.key(); });
  return rows;
}

/// Methods of the published table, then ours that are not in it.
std::vector<std::string> methods_of(const std::vector<TrainingRow>& rows) {
  std::vector<std::string> methods = {"deep-squeeze fp32", "deep-squeeze int8", "choco-sgd fp32",
                                      "choco-sgd int8"};
  for (const TrainingRow& row : rows)
    for (const auto& [method, group] : row.groups)
      if (std::ranges::find(methods, method) == methods.end()) methods.push_back(method);
  return methods;
}

/// The published row of the same data set, network, graph, share left out and skew, with the
/// nearest number of nodes. There, only whole values are left out.
const PublishedRow* published_of(const TrainingRow& row) {
  const PublishedRow* nearest = nullptr;
  double distance = 0;
  if (row.compressor != "none" && row.compressor != "topk") return nullptr;
  for (const PublishedRow& published : published_table("decentralised").rows) {
    const auto near = [&](const char* column, double value, double most) {
      return std::abs(*published_number(published, column) - value) < most;
    };
    if (published.at("dataset") != row.dataset || published.at("network") != row.network ||
        published.at("graph") != row.graph || !near("left_out", row.left_out, 0.5) ||
        !near("skew", row.skew, 1e-6))
      continue;
    const double found = std::abs(*published_number(published, "nodes") - row.nodes);
    if (nearest == nullptr || found < distance) {
      nearest = &published;
      distance = found;
    }
  }
  return nearest;
}

Figure published_figure(const PublishedRow* row, const std::string& column) {
  return row != nullptr && row->contains(column) ? published_number(*row, column) : Figure();
}

std::vector<Cell> cells_of(const TrainingRow& row, const std::vector<std::string>& methods) {
  const PublishedRow* published = published_of(row);
  const Group& any = *row.groups.begin()->second;
  const Figure counted = any.first().outcome.paper_sent_bytes_per_node;
  std::vector<Cell> cells = {text_cell(row.dataset + pixels_of(any.first())),
                             text_cell(row.network),
                             text_cell(row.graph),
                             number_cell(row.nodes, {0}),
                             text_cell(compressor_words(row.compressor)),
                             number_cell(row.left_out, {0}),
                             number_cell(row.skew, {-1, 2}),
                             text_cell(row.variant),
                             spread_cell(any.spread(bytes_per_rank), kGigabytes, 1 / kGiga),
                             number_cell(counted, kGigabytes, 1 / kGiga),
                             number_cell(published_figure(published, "data_gb"), kGigabytes)};
  for (const std::string& method : methods) {
    const auto found = row.groups.find(method);
    cells.push_back(found == row.groups.end()
                        ? text_cell("")
                        : spread_cell(found->second->spread(test_accuracy), kPercent, 100));
    cells.push_back(number_cell(published_figure(published, method), kPercent));
  }
  cells.push_back(number_cell(published_figure(published, "nodes"), {0}));
  return cells;
}

}  // namespace

Table decentralised_table(const std::vector<Group>& groups) {
  Table table{
      "decentralised",
      "Decentralised training: test accuracy [%], ours and published",
      {{"dataset", "data set"},
       {"network", "network"},
       {"graph", "graph"},
       {"nodes", "nodes", Type::number},
       {"compressor", "compressor"},
       {"left_out_percent", "left out [%]", Type::number},
       {"skew", "skew", Type::number},
       {"variant", "variant"},
       {"sent_bytes_per_node", "sent per node [GB]", Type::spread},
       {"paper_sent_bytes_per_node", "as papers count [GB]", Type::number},
       {"published_gigabytes", "published data [GB]", Type::number}},
      {},
      {"Left out: values that are not sent; for quantizers, bits. A published value is "
       "that of the same data set, network, graph, share left out and skew with the nearest "
       "number of nodes. Accuracy is that of the mean model on the whole test set."}};
  const std::vector<TrainingRow> rows = training_rows_of(groups);
  const std::vector<std::string> methods = methods_of(rows);
  for (const std::string& method : methods) {
    table.columns.push_back({method, method, Type::spread});
    table.columns.push_back({method + " published", method + ", published", Type::number});
  }
  table.columns.push_back({"published_nodes", "its nodes", Type::number});
  for (const TrainingRow& row : rows) table.rows.push_back(cells_of(row, methods));
  drop_empty_columns(table);
  return table;
}

}  // namespace eqt::report
