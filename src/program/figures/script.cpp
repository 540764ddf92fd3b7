// SPDX-License-Identifier: Apache-2.0
#include "figures/script.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "figures/gnuplot.hpp"
#include "figures/text.hpp"

namespace eqt::figures {
namespace {

constexpr std::array kShapes = {7, 5, 9, 11, 13, 6, 4, 8, 10, 12, 2};
constexpr std::array kDashes = {"1", "'-'", "'.'", "'-.'"};

constexpr std::size_t kLongestLabel = 44;
constexpr std::size_t kLongestBarLabel = 28;  // of a line; a label has several
constexpr int kPlotHeight = 330;              // without key
constexpr int kKeyRow = 20;                   // [pixels]
constexpr std::size_t kLetter = 7;            // [pixels]
// Gnuplot counts this for an entry of a key: its letters, and the sample with gaps as so many more.
constexpr double kKeyLetter = 8.4;  // [pixels]
constexpr std::size_t kKeySample = 7;
constexpr int kBarFrame = 130, kBarRow = 26, kBarLine = 15;  // [pixels]

/// A label in lines, broken after its commas.
std::vector<std::string> lines_of(std::string_view label) {
  std::vector<std::string> lines = {""};
  while (!label.empty()) {
    const std::size_t comma = label.find(", ");
    const std::size_t length = comma == std::string_view::npos ? label.size() : comma + 2;
    const std::string part(label.substr(0, length));
    if (!lines.back().empty() && width_of(lines.back()) + width_of(part) > kLongestBarLabel)
      lines.emplace_back();
    lines.back() += part;
    label.remove_prefix(length);
  }
  return lines;
}

/// A label of several lines as a quoted string.
std::string bar_label(std::string_view label) {
  std::string text = "\"";
  for (const std::string& line : lines_of(label)) {
    const std::string quoted = gnuplot_quoted(tail_of(line, kLongestBarLabel));
    text += (text.size() > 1 ? "\\n" : "") + quoted.substr(1, quoted.size() - 2);
  }
  return text + '"';
}

bool has_band(const Line& line) {
  return std::ranges::any_of(
      line.points, [](const Line::Point& p) { return p.low && p.high && *p.low < *p.high; });
}

}  // namespace

std::string data_text(Figure value) {
  return finite(value) ? fmt::format("{:.9g}", *value) : "NaN";
}

std::string label_text(std::string_view label) {
  return gnuplot_quoted(tail_of(label, kLongestLabel));
}

std::string line_style(const Style& style) {
  return fmt::format("lc rgb '{}' dt {}", style.colour, kDashes[style.dash % kDashes.size()]);
}

std::string point_style(const Style& style) {
  return fmt::format("pt {}", kShapes[style.shape % kShapes.size()]);
}

std::string frame(std::string_view title, std::string_view x, std::string_view y, Key key) {
  // If there is a key, it has the title, because gnuplot would put the key above a separate title.
  const char* head = key == Key::none
                         ? "set key off\nset title"
                         : "set key tmargin center horizontal samplen 2.5 font ',12' title";
  const char* place = key == Key::above_right ? "set key right\n" : "";
  return fmt::format(
      "unset logscale\nset xlabel {}\nset ylabel {}\n"
      "set grid lw 0.5 lc rgb '{}' dt '.'\nset border 3\nset tics nomirror\n{} {}\n{}",
      gnuplot_quoted(x), gnuplot_quoted(y), kNeutral, head, gnuplot_quoted(title), place);
}

std::string logarithmic(bool x, bool y) {
  std::string script;
  if (x) script += "set logscale x\nset format x '%g'\n";
  if (y) script += "set logscale y\nset format y '%g'\n";
  return script;
}

int height_of_key(const std::vector<std::string>& labels) {
  std::size_t widest = 1;
  for (const std::string& label : labels)
    widest = std::max(widest, std::min(width_of(label), kLongestLabel));
  const double entry = kKeyLetter * static_cast<double>(widest + kKeySample);
  const int columns = std::max(1, static_cast<int>(kPlotWidth / entry));
  const int rows = (static_cast<int>(labels.size()) + columns - 1) / columns;
  return kKeyRow * rows;
}

int height_with_key(const std::vector<std::string>& labels) {
  return kPlotHeight + height_of_key(labels);
}

bool wants_logarithm(const std::vector<double>& values) {
  constexpr double kWide = 10;
  if (values.empty()) return false;
  const auto [least, most] = std::ranges::minmax(values);
  return least > 0 && most > kWide * least;
}

std::string lines_script(const std::vector<Line>& lines, Marks marks) {
  std::string script, bands, curves;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const Line& line = lines[i];
    script += fmt::format("$c{} << end\n", i);
    for (const Line::Point& p : line.points)
      script += fmt::format("{:.9g} {} {} {}\n", p.x, data_text(p.y), data_text(p.low),
                            data_text(p.high));
    script += "end\n";
    const std::string style = line_style(line.style);
    if (has_band(line))
      bands += fmt::format(
          "$c{} using 1:3:4 with filledcurves fs transparent solid 0.15 noborder {} notitle, \\\n",
          i, style);
    const std::string look =
        marks == Marks::none ? "lines lw 1.5 " + style
                             : "linespoints lw 2 ps 0.7 " + style + " " + point_style(line.style);
    curves += fmt::format("{}$c{} using 1:2 with {} title {}", i == 0 ? "" : ", \\\n", i, look,
                          label_text(line.label));
  }
  return script + "plot " + bands + curves + "\n";
}

std::string x_tics(double least, double most, int pixels) {
  if (!std::isfinite(least) || !std::isfinite(most) || pixels <= 0) return "";
  constexpr int kDigit = 9, kGap = 10;  // [pixels]
  constexpr double kEqual = 1e-9, kLeastRange = 1e-9;
  // Values that are equal but for rounding are drawn in the middle of a small range. Steps between
  // them would be lost in a sum with them, so that no tic would ever be the last.
  const double size = std::max(std::abs(least), std::abs(most));
  const double range =
      most - least > kEqual * size ? most - least : std::max(size * 0.02, kLeastRange);
  double step = range;
  for (int count = 10; count > 0; --count) {
    const double decade = std::pow(10, std::floor(std::log10(range / count)));
    step = 10 * decade;
    for (const double times : {5, 2, 1})
      if (times * decade >= range / count) step = times * decade;
    // The axis may begin and end at the next tic.
    const double first = std::floor(least / step) * step, last = std::ceil(most / step) * step;
    std::size_t widest = 1;
    for (double tic = first; tic < last + 1.5 * step; tic += step) {
      const double shown = std::abs(tic) < step / 2 ? 0 : tic;
      widest = std::max(widest, fmt::format("{:.6g}", shown).size());
    }
    const double tics = std::round((last - first) / step) + 1;
    if (tics * static_cast<double>(kDigit * widest + kGap) <= pixels) break;
  }
  return fmt::format("set xtics {:.9g}\n", step);
}

std::string bar_rows(const std::vector<std::string>& labels, double most) {
  constexpr int kBesideLabels = 60;  // [pixels]
  std::string tics;
  std::size_t widest = 0;
  for (std::size_t i = 0; i < labels.size(); ++i) {
    tics += fmt::format("{}{} {}", i == 0 ? "" : ", ", bar_label(labels[i]), i);
    for (const std::string& line : lines_of(labels[i]))
      widest = std::max(widest, std::min(width_of(line), kLongestBarLabel));
  }
  return fmt::format(
             "set ytics ({}) scale 0 font ',12'\nset yrange [{}:-0.5]\n"
             "set xrange [0:*]\n",
             tics, static_cast<double>(labels.size()) - 0.5) +
         x_tics(0, most, kPlotWidth - kBesideLabels - static_cast<int>(widest * kLetter));
}

int height_of_bars(const std::vector<std::string>& labels, std::size_t bars_in_a_row) {
  constexpr int kBar = 12;
  std::size_t lines = 1;
  for (const std::string& label : labels) lines = std::max(lines, lines_of(label).size());
  const int row = std::max({kBarRow, kBarLine * static_cast<int>(lines) + 8,
                            kBar * static_cast<int>(bars_in_a_row) + 8});
  return kBarFrame + row * static_cast<int>(labels.size());
}

std::string bars_script(const std::vector<std::string>& series, const std::vector<BarRow>& rows,
                        bool logarithmic) {
  constexpr double kShare = 0.8;  // of a row
  std::vector<std::string> labels;
  std::string data;
  double least = 0, most = 0;  // smallest positive value, largest
  for (std::size_t i = 0; i < rows.size(); ++i) {
    labels.push_back(rows[i].first);
    data += fmt::format("{}", i);
    for (const double value : rows[i].second) {
      data += ' ' + data_text(value);
      if (!(value > 0 && std::isfinite(value))) continue;
      least = least > 0 ? std::min(least, value) : value;
      most = std::max(most, value);
    }
    data += '\n';
  }
  std::string script = bar_rows(labels, most) + "$bars << end\n" + data + "end\n";
  // On a logarithmic axis, which has no zero, bars begin at half of the shortest one.
  const double begin = logarithmic && least > 0 ? least / 2 : 0;
  if (begin > 0)
    script += fmt::format(
        "set logscale x\nset xtics autofreq\nset format x '%g'\nset xrange [{:.9g}:*]\n", begin);
  const double height = kShare / static_cast<double>(series.size());
  for (std::size_t i = 0; i < series.size(); ++i) {
    const double top = -kShare / 2 + height * static_cast<double>(i);
    script += fmt::format(
        "{}$bars using {}:1:({:.9g}):{}:($1{:+.4g}):($1{:+.4g}) with boxxyerror fs solid noborder "
        "lc rgb '{}' title {}",
        i == 0 ? "plot " : ", \\\n", i + 2, begin, i + 2, top, top + 0.9 * height, colour(i),
        label_text(series[i]));
  }
  return script + "\n";
}

}  // namespace eqt::figures
