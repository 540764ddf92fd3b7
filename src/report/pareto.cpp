// Accuracy against bytes, a point per group.

#include <fmt/format.h>

#include <algorithm>

#include "report/comparison.hpp"
#include "report/drawing.hpp"
#include "report/quantities.hpp"
#include "report/script.hpp"

namespace eqt::report {
namespace {

struct Point {
  std::string label;
  std::size_t style;
  double megabytes;
  Spread accuracy;
  bool on_front;
};

std::vector<Point> points_of(const std::vector<Group>& groups) {
  const std::vector<bool> front = pareto_front(groups);
  std::vector<Point> points;
  for (std::size_t i = 0; i < groups.size(); ++i) {
    const Spread bytes = groups[i].spread(bytes_per_rank);
    const Spread accuracy =
        groups[i].spread([](const Run& run) { return run.outcome.test_accuracy; });
    const bool shown = i < kMostCurves || front[i];
    if (bytes.known > 0 && accuracy.known > 0 && shown)
      points.push_back({groups[i].label, i, bytes.mean / 1e6, accuracy, front[i]});
  }
  return points;
}

/// The front's data, by bytes, and the plot's description.
std::string front_of(std::vector<Point> points, std::string& text) {
  std::ranges::sort(points, {}, &Point::megabytes);
  std::string data;
  for (const Point& p : points) {
    if (!p.on_front) continue;
    data += fmt::format("{:.9g} {:.9g}\n", p.megabytes, 100 * p.accuracy.mean);
    text += fmt::format("{}{}: {:.4g} MB, {:.4g} %", text.empty() ? "" : "; ", p.label, p.megabytes,
                        100 * p.accuracy.mean);
  }
  return data;
}

}  // namespace

void draw_pareto(const std::vector<Group>& groups, Drawings& drawings) {
  const std::vector<Point> points = points_of(groups);
  if (points.empty()) {
    drawings.left_out.push_back("No plot of accuracy by bytes: no run has both.");
    return;
  }
  const std::string title = "Final test accuracy by bytes sent";
  std::string text, script = frame(title, "sent per rank [MB]", "test accuracy [%]");
  std::vector<double> megabytes;
  std::vector<std::string> labels = {"Pareto front"};
  script += "$front << end\n" + front_of(points, text) + "end\n";
  std::string plots =
      "plot $front using 1:2 with steps lw 2 lc rgb 'gray' dt '-' title \"Pareto front\"";
  for (std::size_t i = 0; i < points.size(); ++i) {
    const Point& p = points[i];
    megabytes.push_back(p.megabytes);
    labels.push_back(p.label);
    script += fmt::format("$p{} << end\n{:.9g} {:.9g} {:.9g}\nend\n", i, p.megabytes,
                          100 * p.accuracy.mean, 100 * p.accuracy.deviation.value_or(0));
    plots += fmt::format(", \\\n$p{} using 1:2{} {} {} title {}", i,
                         p.accuracy.deviation ? ":3 with yerrorbars ps 1.2" : " with points ps 1.2",
                         line_style(p.style), point_style(p.style), label_text(p.label));
  }
  if (wants_logarithm(megabytes)) script += "set logscale x\n";
  script += "set offsets graph 0.05, graph 0.05, graph 0.05, graph 0.05\n";
  drawings.all.push_back({"pareto", title,
                          "Accuracy against megabytes sent per rank. Nothing beats " + text + ".",
                          script + plots + "\n", 640, height_with_key(labels)});
}

}  // namespace eqt::report
