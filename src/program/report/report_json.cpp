// SPDX-License-Identifier: Apache-2.0
#include "report/report_json.hpp"

#include <fmt/format.h>

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <system_error>

#include "core/checksum.hpp"
#include "core/error.hpp"
#include "core/whole_file.hpp"
#include "figures/text.hpp"
#include "report/quantities.hpp"

namespace eqt::report {
using figures::Column;

namespace {

namespace fs = std::filesystem;

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

constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 30;  // [bytes] of a report's file

std::string hash_of(const fs::path& path) {
  const auto bytes = read_whole_bytes(
      path, {.what = "a file of a report", .max_bytes = kMostBytes, .remedy = "check the folder"});
  return fmt::format("{:016x}", checksum(bytes));
}

bool is_there(const fs::path& path) {
  std::error_code error;
  return fs::exists(fs::symlink_status(path, error));
}

/// Returns what the folder's report says of its files: a null if it does not, and nothing if there
/// is no report.
std::optional<OrderedJson> told_files(const fs::path& folder) {
  if (!is_there(folder / kReportFile)) return {};
  const std::string text = read_whole_file(
      folder / kReportFile,
      {.what = "a report", .max_bytes = kMostBytes, .remedy = "choose another folder with --out"});
  const OrderedJson document = OrderedJson::parse(text, nullptr, false);
  if (!document.is_object() || !document.contains("schema") || !document.contains("groups"))
    return {};
  const auto found = document.find("files");
  // GCC 15 finds the conversion of a JSON value into an optional ambiguous, so it is made in place.
  if (found == document.end() || !found->is_object())
    return std::optional<OrderedJson>(std::in_place);
  return std::optional<OrderedJson>(std::in_place, *found);
}

}  // namespace

std::vector<WrittenFile> written_files(const fs::path& folder,
                                       const std::vector<std::string>& names) {
  std::vector<WrittenFile> files;
  for (const std::string& name : names)
    if (is_there(folder / name)) files.push_back({name, hash_of(folder / name)});
  return files;
}

void require_own_files(const fs::path& folder, const std::vector<std::string>& names) {
  const std::optional<OrderedJson> told = told_files(folder);
  const auto is_own = [&](const std::string& name) {
    if (!told) return false;
    if (told->is_null() || name == kReportFile) return true;
    const auto found = told->find(name);
    if (found == told->end() || !found->is_string()) return false;
    return found->get<std::string>().empty() || *found == hash_of(folder / name);
  };
  for (const std::string& name : names) {
    if (!is_there(folder / name) || is_own(name)) continue;
    fail(Kind::usage,
         "report: expected files that a report has written in {}, or none of their names, found "
         "{}, which is another or was changed; move it away, or try another --out or --overwrite",
         visible(folder.string()), name);
  }
}

std::string as_json(const std::vector<Group>& groups, const std::vector<Table>& tables,
                    const std::vector<std::string>& plots, const std::vector<WrittenFile>& files,
                    const std::vector<std::string>& warnings) {
  OrderedJson document = {{"schema", kReportSchema},
                          {"groups", OrderedJson::array()},
                          {"tables", OrderedJson::array()}};
  for (const Group& group : groups) document["groups"].push_back(json_of(group));
  for (const Table& table : tables) document["tables"].push_back(json_of(table));
  document["plots"] = plots;
  document["files"] = OrderedJson::object();
  for (const WrittenFile& file : files) document["files"][file.name] = file.hash;
  document["warnings"] = warnings;
  return document.dump(2) + "\n";
}

}  // namespace eqt::report
