// SPDX-License-Identifier: Apache-2.0
#include "figures/rows.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "core/visible.hpp"

namespace eqt::figures {
namespace {

/// Null if there is none.
const Row* value_of(const Row& row, const RowColumn& column) {
  // Names of schemes may have a '/' or a '~', which a pointer would interpret.
  if (const auto own = row.find(column.key); own != row.end()) return &*own;
  const Row::json_pointer place(fmt::format("/{}", column.key));
  return row.contains(place) ? &row.at(place) : nullptr;
}

std::string cell_text(const Row& row, const RowColumn& column) {
  const Row* const found = value_of(row, column);
  if (found == nullptr) return "-";
  const Row& value = *found;
  if (value.is_string()) return visible(value.get_ref<const std::string&>());
  if (value.is_boolean()) return value.get<bool>() ? "yes" : "no";
  if (value.is_number_integer()) return fmt::format("{}", value.get<std::int64_t>());
  if (value.is_number_float()) return fmt::format("{:.{}g}", value.get<double>(), column.digits);
  return "-";
}

bool is_text(const std::vector<Row>& rows, const RowColumn& column) {
  return std::ranges::any_of(rows, [&](const Row& row) {
    const Row* const value = value_of(row, column);
    return value != nullptr && value->is_string();
  });
}

void print_table(const std::vector<Row>& rows, const std::vector<RowColumn>& columns) {
  std::vector<std::string> lines(rows.size() + 1);
  for (const RowColumn& column : columns) {
    const bool left = is_text(rows, column);
    std::vector<std::string> cells = {visible(column.title)};
    for (const Row& row : rows) cells.push_back(cell_text(row, column));
    std::size_t width = 0;
    for (const std::string& cell : cells) width = std::max(width, cell.size());
    const char* const gap = lines[0].empty() ? "" : "  ";
    for (std::size_t i = 0; i < cells.size(); ++i)
      lines[i] += left ? fmt::format("{}{:<{}}", gap, cells[i], width)
                       : fmt::format("{}{:>{}}", gap, cells[i], width);
  }
  for (std::string& line : lines) {
    line.erase(line.find_last_not_of(' ') + 1);
    fmt::print("{}\n", line);
  }
}

}  // namespace

void print_rows(const std::vector<Row>& rows, const std::vector<RowColumn>& columns, bool json) {
  if (!json) return print_table(rows, columns);
  for (const Row& row : rows) fmt::print("{}\n", row.dump());
}

}  // namespace eqt::figures
