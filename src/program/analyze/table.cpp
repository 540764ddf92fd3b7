// SPDX-License-Identifier: Apache-2.0
#include "analyze/table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <set>

#include "core/visible.hpp"

namespace eqt::analyze {
namespace {

/// Null if there is none.
const Row* value_of(const Row& row, const Column& column) {
  // Names of schemes may have a '/' or a '~', which a pointer would interpret.
  if (const auto own = row.find(column.key); own != row.end()) return &*own;
  const Row::json_pointer place(fmt::format("/{}", column.key));
  return row.contains(place) ? &row.at(place) : nullptr;
}

std::string cell_text(const Row& row, const Column& column) {
  const Row* const found = value_of(row, column);
  if (found == nullptr) return "-";
  const Row& value = *found;
  if (value.is_string()) return visible(value.get_ref<const std::string&>());
  if (value.is_boolean()) return value.get<bool>() ? "yes" : "no";
  if (value.is_number_integer()) return fmt::format("{}", value.get<std::int64_t>());
  if (value.is_number_float()) return fmt::format("{:.{}g}", value.get<double>(), column.digits);
  return "-";
}

bool is_text(const std::vector<Row>& rows, const Column& column) {
  return std::ranges::any_of(rows, [&](const Row& row) {
    const Row* const value = value_of(row, column);
    return value != nullptr && value->is_string();
  });
}

void print_table(const std::vector<Row>& rows, const std::vector<Column>& columns) {
  std::vector<std::string> lines(rows.size() + 1);
  for (const Column& column : columns) {
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

/// "QSGD, NUQSGD".
std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : ", ") + word;
  return text;
}

/// "qsgd" of "qsgd, 4 bits".
std::string first_name(const std::string& label) { return label.substr(0, label.find(", ")); }

/// Returns true if each row is of a compressor with its own colour, and no two are of the same one.
bool are_compressors(const std::vector<std::string>& labels) {
  std::set<std::string> names;
  for (const std::string& label : labels) names.insert(first_name(label));
  return names.size() == labels.size() && std::ranges::all_of(names, report::has_own_colour);
}

}  // namespace

void print_rows(const std::vector<Row>& rows, const std::vector<Column>& columns, bool json) {
  if (!json) return print_table(rows, columns);
  for (const Row& row : rows) fmt::print("{}\n", row.dump());
}

report::Drawing curves_drawing(const Axes& axes, const std::vector<Curve>& curves) {
  std::vector<report::Line> lines;
  std::vector<std::string> labels;
  for (const Curve& curve : curves) labels.push_back(curve.title);
  const bool of_compressors = are_compressors(labels);
  for (std::size_t i = 0; i < curves.size(); ++i) {
    const std::string_view colour =
        of_compressors ? report::colour_of(first_name(labels[i])) : report::colour(i);
    report::Line line{labels[i], {colour, i / report::colours().size(), i}, {}};
    for (const auto& [x, y] : curves[i].points)
      line.points.push_back({x, report::finite(y), {}, {}});
    lines.push_back(std::move(line));
  }
  return {.name = "",
          .title = axes.title,
          .description = fmt::format("{} over {}: {}.", axes.y, axes.x, joined(labels)),
          .script = report::frame(axes.title, axes.x, axes.y) +
                    report::logarithmic(axes.log_x, axes.log_y) + report::lines_script(lines),
          .height = report::height_with_key(labels)};
}

report::Drawing bars_drawing(const Bars& bars) {
  std::vector<std::string> labels;
  for (const auto& [name, values] : bars.groups) labels.push_back(name);
  return {
      .name = "",
      .title = bars.title,
      .description = fmt::format("{} of {}: {}.", bars.unit, joined(labels), joined(bars.series)),
      .script = report::frame(bars.title, bars.unit, "") +
                report::bars_script(bars.series, bars.groups, bars.logarithmic),
      .height = report::height_of_bars(labels, bars.series.size())};
}

report::Drawing stacked(const report::Drawing& above, const report::Drawing& below) {
  return {
      .name = "",
      .title = above.title + "; " + below.title,
      .description = above.description + " " + below.description,
      .script = "set multiplot layout 2,1\n" + above.script + below.script + "unset multiplot\n",
      .height = above.height + below.height};
}

}  // namespace eqt::analyze
