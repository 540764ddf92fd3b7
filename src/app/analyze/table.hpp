// Answers of `analyze`: rows that become a text table or lines of JSON, and data of plots.

#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "app/analyze/commands.hpp"

namespace eqt::app {

using Row = nlohmann::ordered_json;

/// A column of the text table: numbers stand right with `digits` significant ones, texts left.
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

/// gnuplot's commands that draw curves with points.
std::string curves_script(const Axes& axes, const std::vector<Curve>& curves);

/// Bars in groups: a value per series and group.
struct Bars {
  std::string title, y;
  bool log_y = false;
  std::vector<std::string> series;
  std::vector<std::pair<std::string, std::vector<double>>> groups;
};
std::string bars_script(const Bars& bars);

/// Draws `script` if a plot was asked for, after what was printed has left.
/// @throws Error{output}
void draw(const AnalyzeOutput& output, const std::string& script, int width = 900,
          int height = 600);

}  // namespace eqt::app
