// SPDX-License-Identifier: Apache-2.0
// Parts of gnuplot scripts that all plots share.

#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "figures/colours.hpp"
#include "figures/statistics.hpp"

namespace eqt::figures {

// More lines could not be distinguished.
inline constexpr std::size_t kMaxCurves = 24;

// Width of every drawing: narrow enough to be readable on a telephone [pixels].
inline constexpr int kPlotWidth = 480;

/// A number as data; "NaN", which leaves a gap, if there is none.
std::string data_text(Figure value);

/// A label as a quoted string; of a long one the end.
std::string label_text(std::string_view label);

/// "lc rgb '#0072b2' dt 1".
std::string line_style(const Style& style);
/// "pt 7": eleven shapes, repeated from the start.
std::string point_style(const Style& style);

/// The key is above the plot; that of bars, whose plot is in the right half of the picture, with
/// its right end over the plot's.
enum class Key { above, above_right, none };

/// Title, axis labels and grid, without logarithmic axes; a key is between title and plot.
std::string frame(std::string_view title, std::string_view x, std::string_view y,
                  Key key = Key::above);

/// Axes that are logarithmic, with plain numbers on them.
std::string logarithmic(bool x, bool y);

/// Height of a key with these labels, and of a plot with it [pixels].
int height_of_key(const std::vector<std::string>& labels);
int height_with_key(const std::vector<std::string>& labels);

/// True if positive values differ so much that they need a logarithmic axis.
bool wants_logarithm(const std::vector<double>& values);

/// A curve. A point without y interrupts it; low and high, if given, are a band around it.
struct Line {
  struct Point {
    double x;
    Figure y, low, high;
  };
  std::string label;
  Style style;
  std::vector<Point> points;
};

enum class Marks { points, none };

/// Data and the command that plots them: bands below lines, with points or of many values without.
/// To be used after frame().
std::string lines_script(const std::vector<Line>& lines, Marks marks = Marks::points);

/// Sets tics of a linear horizontal axis at such a distance that their numbers do not overlap.
/// @param pixels width of the plot without what stands beside it
std::string x_tics(double least, double most, int pixels = kPlotWidth - 100);

/// Rows of horizontal bars, the first on top, named by labels on the axis, which goes from 0 to
/// `most`.
std::string bar_rows(const std::vector<std::string>& labels, double most);
int height_of_bars(const std::vector<std::string>& labels, std::size_t bars_in_a_row = 1);

/// A row of bars: one for each series; NaN: none.
using BarRow = std::pair<std::string, std::vector<double>>;

/// Data and the command that plots them: in each row one bar per series, one below the other. To be
/// used after frame().
std::string bars_script(const std::vector<std::string>& series, const std::vector<BarRow>& rows,
                        bool logarithmic);

}  // namespace eqt::figures
