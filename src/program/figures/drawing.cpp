// SPDX-License-Identifier: Apache-2.0
#include "figures/drawing.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string_view>

#include "figures/colours.hpp"

namespace eqt::figures {
namespace {

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
  return names.size() == labels.size() && std::ranges::all_of(names, has_own_colour);
}

}  // namespace

Drawing curves_drawing(const Axes& axes, const std::vector<Curve>& curves) {
  std::vector<Line> lines;
  std::vector<std::string> labels;
  for (const Curve& curve : curves) labels.push_back(curve.title);
  const bool of_compressors = are_compressors(labels);
  for (std::size_t i = 0; i < curves.size(); ++i) {
    const std::string_view own = of_compressors ? colour_of(first_name(labels[i])) : colour(i);
    Line line{labels[i], {own, i / colours().size(), i}, {}};
    for (const auto& [x, y] : curves[i].points) line.points.push_back({x, finite(y), {}, {}});
    lines.push_back(std::move(line));
  }
  return {.name = "",
          .title = axes.title,
          .description = fmt::format("{} over {}: {}.", axes.y, axes.x, joined(labels)),
          .script = frame(axes.title, axes.x, axes.y) + logarithmic(axes.log_x, axes.log_y) +
                    lines_script(lines),
          .height = height_with_key(labels)};
}

Drawing bars_drawing(const Bars& bars) {
  std::vector<std::string> labels;
  for (const auto& [name, values] : bars.groups) labels.push_back(name);
  return {
      .name = "",
      .title = bars.title,
      .description = fmt::format("{} of {}: {}.", bars.unit, joined(labels), joined(bars.series)),
      .script = frame(bars.title, bars.unit, "") +
                bars_script(bars.series, bars.groups, bars.logarithmic),
      .height = height_of_bars(labels, bars.series.size())};
}

Drawing stacked(const Drawing& above, const Drawing& below) {
  return {
      .name = "",
      .title = above.title + "; " + below.title,
      .description = above.description + " " + below.description,
      .script = "set multiplot layout 2,1\n" + above.script + below.script + "unset multiplot\n",
      .height = above.height + below.height};
}

}  // namespace eqt::figures
