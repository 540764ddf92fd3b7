// SPDX-License-Identifier: Apache-2.0
// A plot as a script for gnuplot, and the usual ones: curves, bars, two plots in one picture.

#pragma once

#include <string>
#include <utility>
#include <vector>

#include "figures/script.hpp"

namespace eqt::figures {

struct Drawing {
  std::string name;              // of its files: letters, digits and hyphens
  std::string title;             // of the plot
  std::string description = {};  // the important figures, for people who cannot see it
  std::string script = {};       // see run_gnuplot()
  int height = 420;              // for a width of kPlotWidth [pixels]
};

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
Drawing curves_drawing(const Axes& axes, const std::vector<Curve>& curves);

/// Bars in groups: a value per series and group.
struct Bars {
  std::string title, unit;
  bool logarithmic = false;
  std::vector<std::string> series;
  std::vector<BarRow> groups;
};
Drawing bars_drawing(const Bars& bars);

/// One above the other.
Drawing stacked(const Drawing& above, const Drawing& below);

}  // namespace eqt::figures
