#include "app/analyze/table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "metrics/gnuplot.hpp"

namespace eqt::app {
namespace {

using metrics::gnuplot_quoted;

Row::json_pointer place_of(const Column& column) {
  return Row::json_pointer(fmt::format("/{}", column.key));
}

std::string cell_text(const Row& row, const Column& column) {
  const Row::json_pointer place = place_of(column);
  if (!row.contains(place)) return "-";
  const Row& value = row.at(place);
  if (value.is_string()) return value.get<std::string>();
  if (value.is_boolean()) return value.get<bool>() ? "yes" : "no";
  if (value.is_number_integer()) return fmt::format("{}", value.get<std::int64_t>());
  if (value.is_number_float()) return fmt::format("{:.{}g}", value.get<double>(), column.digits);
  return "-";
}

bool is_text(const std::vector<Row>& rows, const Column& column) {
  const Row::json_pointer place = place_of(column);
  return std::ranges::any_of(
      rows, [&](const Row& row) { return row.contains(place) && row.at(place).is_string(); });
}

void print_table(const std::vector<Row>& rows, const std::vector<Column>& columns) {
  std::vector<std::string> lines(rows.size() + 1);
  for (const Column& column : columns) {
    const bool left = is_text(rows, column);
    std::vector<std::string> cells = {column.title};
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

/// A number as gnuplot reads it.
std::string number(double value) {
  return std::isfinite(value) ? fmt::format("{:.9g}", value) : "NaN";
}

std::string axes_script(const Axes& axes) {
  std::string script =
      "reset\nset grid back linetype 1 linewidth 0.5 linecolor rgb '#d8d8d8'\nset border 3\n"
      "set tics nomirror\nset key below\n";
  script += fmt::format("set title {}\nset xlabel {} offset 0,0.4\nset ylabel {}\n",
                        gnuplot_quoted(axes.title), gnuplot_quoted(axes.x), gnuplot_quoted(axes.y));
  if (axes.log_x) script += "set logscale x\nset format x '%g'\n";
  if (axes.log_y) script += "set logscale y\nset format y '%g'\n";
  return script;
}

// Told apart by eyes that see no colour, too: by the points' shapes.
constexpr const char* kColours[] = {"#0072b2", "#d55e00", "#009e73", "#cc79a7",
                                    "#56b4e9", "#e69f00", "#444444", "#8c564b"};

}  // namespace

void print_rows(const std::vector<Row>& rows, const std::vector<Column>& columns, bool json) {
  if (!json) return print_table(rows, columns);
  for (const Row& row : rows) fmt::print("{}\n", row.dump());
}

std::string curves_script(const Axes& axes, const std::vector<Curve>& curves) {
  std::string script = axes_script(axes);
  for (std::size_t i = 0; i < curves.size(); ++i) {
    script += fmt::format("$curve{} << end_of_curve\n", i);
    for (const auto& [x, y] : curves[i].points)
      script += fmt::format("{} {}\n", number(x), number(y));
    script += "end_of_curve\n";
  }
  script += "plot ";
  for (std::size_t i = 0; i < curves.size(); ++i)
    script += fmt::format(
        "{}$curve{} using 1:2 with linespoints linewidth 2 pointsize 0.6 linecolor rgb '{}' "
        "pointtype {} title {}",
        i > 0 ? ", " : "", i, kColours[i % std::size(kColours)], 4 + i % 10,
        gnuplot_quoted(curves[i].title));
  script += '\n';
  return script;
}

std::string bars_script(const Bars& bars) {
  Axes axes{.title = bars.title, .x = "", .y = bars.y, .log_x = false, .log_y = bars.log_y};
  std::string script = axes_script(axes);
  script +=
      "set style data histograms\nset style histogram clustered gap 1\n"
      "set style fill solid 0.9\nset boxwidth 0.9\nset xtics rotate by -30 scale 0\n";
  if (!bars.log_y) script += "set yrange [0:*]\n";
  script += "$bars << end_of_bars\n";
  for (const auto& [name, values] : bars.groups) {
    script += gnuplot_quoted(name);
    for (const double value : values) script += fmt::format(" {}", number(value));
    script += '\n';
  }
  script += "end_of_bars\nplot ";
  for (std::size_t i = 0; i < bars.series.size(); ++i)
    script += fmt::format("{}$bars using {}:xtic(1) linecolor rgb '{}' title {}", i > 0 ? ", " : "",
                          i + 2, kColours[i % std::size(kColours)], gnuplot_quoted(bars.series[i]));
  script += '\n';
  return script;
}

void draw(const AnalyzeOutput& output, const std::string& script, int width, int height) {
  if (output.plot.empty()) return;
  (void)std::fflush(stdout);
  metrics::run_gnuplot(script, {.path = output.plot, .width = width, .height = height});
}

}  // namespace eqt::app
