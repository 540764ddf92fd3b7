// SPDX-License-Identifier: Apache-2.0
// Answers of `analyze`: rows that become a text table or lines of JSON, and data of plots.

#pragma once

#include <cstdio>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "analyze/commands.hpp"
#include "report/draw.hpp"
#include "report/script.hpp"

namespace eqt::analyze {

using Row = nlohmann::ordered_json;

/// A column of the text table: numbers are right-aligned with `digits` significant ones, texts
/// left.
struct Column {
  const char* key;  // of the row, "a/b" for a member of a member; absent and null print as "-"
  const char* title;
  int digits = 4;
};

/// `rows` as JSON, one a line, or as a table of `columns`; numbers that are not finite are null.
void print_rows(const std::vector<Row>& rows, const std::vector<Column>& columns, bool json);

/// A curve of a plot.
struct Curve {
  std::string title;
  std::vector<std::pair<double, double>> points;
};

/// Axes of a plot with curves.
struct Axes {
  std::string title, x, y;
  bool log_x = false, log_y = false;
};

/// Curves with points, in compressors' own colours where each is of another one, as their titles
/// begin.
report::Drawing curves_drawing(const Axes& axes, const std::vector<Curve>& curves);

/// Bars in groups: a value per series and group.
struct Bars {
  std::string title, unit;
  bool logarithmic = false;
  std::vector<std::string> series;
  std::vector<report::BarRow> groups;
};
report::Drawing bars_drawing(const Bars& bars);

/// One above the other.
report::Drawing stacked(const report::Drawing& above, const report::Drawing& below);

/// Draws what drawing_of() returns if a plot was asked for, after what was printed has left.
/// @throws Error{output}
template <typename DrawingOf>
void draw(const AnalyzeOutput& output, const DrawingOf& drawing_of) {
  if (output.plot.empty()) return;
  (void)std::fflush(stdout);
  report::draw_file(drawing_of(), output.plot);
}

}  // namespace eqt::analyze
