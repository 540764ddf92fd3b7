// SPDX-License-Identifier: Apache-2.0
#include "report/report_json.hpp"

#include <nlohmann/json.hpp>

#include "report/quantities.hpp"

namespace eqt::report {
namespace {

using OrderedJson = nlohmann::ordered_json;

// Increased when a key changes its meaning or is removed.
constexpr int kReportSchema = 1;

OrderedJson json_of(const Figure& figure) {
  return figure ? OrderedJson(*figure) : OrderedJson(nullptr);
}

OrderedJson json_of(const Run& run) {
  return {{"folder", run.folder},       {"seed", run.seed},
          {"finished", run.finished},   {"epochs", run.outcome.epochs},
          {"steps", run.outcome.steps}, {"parameter_hash", run.outcome.parameter_hash},
          {"remarks", run.remarks}};
}

OrderedJson json_of(const Group& group) {
  OrderedJson settings = OrderedJson::object(), figures = OrderedJson::object(),
              runs = OrderedJson::array();
  for (const auto& [key, value] : group.differences) settings[key] = value;
  for (const Quantity& q : quantities({group})) {
    const Spread spread = group.spread(q.of);
    if (spread.known == 0) continue;
    figures[q.key] = {{"mean", spread.mean},
                      {"deviation", json_of(spread.deviation)},
                      {"standard_error", json_of(spread.standard_error())},
                      {"count", spread.known}};
  }
  for (const Run* run : group.runs) runs.push_back(json_of(*run));
  return {{"label", group.label}, {"finished", group.finished()}, {"ranks", group.first().ranks},
          {"settings", settings}, {"figures", figures},           {"runs", runs}};
}

OrderedJson json_of(const Table& table) {
  OrderedJson rows = OrderedJson::array();
  for (const auto& cells : table.rows) {
    OrderedJson row = OrderedJson::object();
    for (std::size_t i = 0; i < cells.size(); ++i) {
      const Column& column = table.columns[i];
      row[column.key] =
          column.type == Column::Type::text ? OrderedJson(cells[i].text) : json_of(cells[i].value);
      if (column.type != Column::Type::spread) continue;
      row[column.key + "_deviation"] = json_of(cells[i].deviation);
      row[column.key + "_standard_error"] = json_of(cells[i].standard_error);
      row[column.key + "_count"] = cells[i].count;
    }
    rows.push_back(row);
  }
  return {{"name", table.name}, {"caption", table.caption}, {"rows", rows}, {"notes", table.notes}};
}

}  // namespace

std::string as_json(const std::vector<Group>& groups, const std::vector<Table>& published,
                    const std::vector<std::string>& plots,
                    const std::vector<std::string>& warnings) {
  OrderedJson document = {{"schema", kReportSchema},
                          {"groups", OrderedJson::array()},
                          {"tables", OrderedJson::array()}};
  for (const Group& group : groups) document["groups"].push_back(json_of(group));
  for (const Table& table : published) document["tables"].push_back(json_of(table));
  document["plots"] = plots;
  document["warnings"] = warnings;
  return document.dump(2) + "\n";
}

}  // namespace eqt::report
