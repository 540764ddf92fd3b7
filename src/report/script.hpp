// Pieces of gnuplot scripts that all plots share.

#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "report/statistics.hpp"

namespace eqt::report {

// More lines than these cannot be told apart.
inline constexpr std::size_t kMostCurves = 24;

/// A number as data; "NaN", which leaves a gap, if there is none.
std::string data_text(Figure value);

/// A label as a quoted string, shortened.
std::string label_text(std::string_view label);

/// "lc rgb '#0072b2' dt 1": colours that also colour-blind people tell apart, then dashes.
std::string line_style(std::size_t index);
/// "pt 7": with the colour, no two of the first 66 are alike.
std::string point_style(std::size_t index);

enum class Key { above, none };

/// Title, axis labels and grid; a key stands between title and plot.
std::string frame(std::string_view title, std::string_view x, std::string_view y,
                  Key key = Key::above);

/// Height of a plot whose key has these labels [pixels].
int height_with_key(const std::vector<std::string>& labels);

/// Whether positive values are spread so widely that only a logarithmic axis shows them.
bool wants_logarithm(const std::vector<double>& values);

/// Rows of horizontal bars, the first on top, named by labels on the axis.
std::string bar_rows(const std::vector<std::string>& labels);
int height_of_bars(std::size_t rows);

}  // namespace eqt::report
