// SPDX-License-Identifier: Apache-2.0
// Accuracy, or what else the task is judged by, against bytes, a point per group.

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "figures/script.hpp"
#include "report/comparison.hpp"
#include "report/drawing.hpp"
#include "report/quantities.hpp"

namespace eqt::report {
using figures::frame;
using figures::height_with_key;
using figures::kMaxCurves;
using figures::kNeutral;
using figures::label_text;
using figures::line_style;
using figures::logarithmic;
using figures::point_style;
using figures::wants_logarithm;
using figures::x_tics;

namespace {

constexpr double kMega = 1e6;

struct FrontPoint {
  std::string label;
  Style style;
  Spread bytes, accuracy;  // in the units of the plot
  Standing standing;

  double megabytes() const { return bytes.mean / kMega; }
};

std::vector<FrontPoint> points_of(const std::vector<Group>& groups, const MainFigure& main) {
  const std::vector<Standing> front = pareto_front(groups);
  const std::vector<Style> styles = styles_of(groups);
  std::vector<FrontPoint> points;
  for (std::size_t i = 0; i < groups.size(); ++i) {
    const Spread bytes = groups[i].spread(bytes_per_rank);
    Spread accuracy = groups[i].spread([&](const Run& run) { return main.of(run); });
    accuracy.mean *= main.scale();
    if (accuracy.deviation) *accuracy.deviation *= main.scale();
    const bool shown = i < kMaxCurves || front[i].on_front;
    if (bytes.known > 0 && accuracy.known > 0 && shown)
      points.push_back({groups[i].label, styles[i], bytes, accuracy, front[i]});
  }
  return points;
}

/// The front's data, by bytes, and the plot's description.
std::string front_of(std::vector<FrontPoint> points, const char* unit, std::string& text) {
  std::ranges::sort(points, {}, &FrontPoint::megabytes);
  std::string data, uncertain;
  for (const FrontPoint& p : points) {
    if (!p.standing.certain) uncertain += (uncertain.empty() ? "" : "; ") + p.label;
    if (!p.standing.on_front) continue;
    data += fmt::format("{:.9g} {:.9g}\n", p.megabytes(), p.accuracy.mean);
    text += fmt::format("{}{}: {:.4g} MB, {:.4g}{}", text.empty() ? "" : "; ", p.label,
                        p.megabytes(), p.accuracy.mean, unit);
  }
  text += uncertain.empty() ? "." : ". Uncertain, since bars overlap: " + uncertain + ".";
  return data;
}

/// A point's data "x y deviation-of-x deviation-of-y", and how it is drawn: with bars if there are
/// deviations.
std::string data_of(const FrontPoint& p) {
  return fmt::format("{:.9g} {:.9g} {:.9g} {:.9g}\n", p.megabytes(), p.accuracy.mean,
                     p.bytes.deviation.value_or(0) / kMega, p.accuracy.deviation.value_or(0));
}
std::string_view bars_of(const FrontPoint& p) {
  const bool of_bytes = p.bytes.deviation.value_or(0) > 0;
  if (of_bytes) return ":3:4 with xyerrorbars";
  return p.accuracy.deviation ? ":4 with yerrorbars" : " with points";
}

}  // namespace

void draw_pareto(const std::vector<Group>& groups, Drawings& drawings) {
  const MainFigure main = main_figure(groups);
  const std::vector<FrontPoint> points = points_of(groups, main);
  if (points.size() < 2) return;  // a front of one
  const std::string title = fmt::format("Final {} by bytes sent", main.title());
  std::string text, script = frame(title, "sent per rank [MB]", main.head());
  std::vector<double> megabytes;
  std::vector<std::string> labels = {"Pareto front"};
  script += "$front << end\n" + front_of(points, main.metric.fraction ? " %" : "", text) + "end\n";
  std::string plots = fmt::format(
      "plot $front using 1:2 with steps lw 2 lc rgb '{}' dt '-' title \"Pareto front\"", kNeutral);
  for (std::size_t i = 0; i < points.size(); ++i) {
    const FrontPoint& p = points[i];
    megabytes.push_back(p.megabytes());
    labels.push_back(p.label);
    script += fmt::format("$p{} << end\n{}end\n", i, data_of(p));
    plots += fmt::format(", \\\n$p{} using 1:2{} ps 0.8 lw 1.5 {} {} title {}", i, bars_of(p),
                         line_style(p.style), point_style(p.style), label_text(p.label));
  }
  const bool logarithmic_x = wants_logarithm(megabytes);
  const auto [least, most] = std::ranges::minmax(megabytes);
  script += logarithmic(logarithmic_x, false) + (logarithmic_x ? "" : x_tics(least, most));
  script += "set offsets graph 0.05, graph 0.05, graph 0.05, graph 0.05\n";
  drawings.all.push_back(
      {"pareto", title,
       capitalised(main.metric.title) +
           " against megabytes sent per rank, bars of a deviation over seeds. Nothing beats " +
           text,
       script + plots + "\n", height_with_key(labels)});
}

}  // namespace eqt::report
