// SPDX-License-Identifier: Apache-2.0
// Plots, drawn by gnuplot in a separate process.

#pragma once

#include <chrono>
#include <string>
#include <string_view>

namespace eqt::figures {

/// Returns true if PATH has a program named gnuplot.
bool plot_available();

/// The file of a plot, and its size.
struct Plot {
  std::string path;               // .svg or .png
  int width = 900, height = 600;  // [units of svg; pixels of png, times `scale`]
  int scale = 1;                  // of png; also scales letters, lines and points
  std::chrono::seconds deadline{60};
};

/// Returns true if run_gnuplot() can draw a file of that name, by its ending.
bool is_plot_path(std::string_view path);

/// Draws `script` into plot.path. The file is complete or is not made. The script sets neither
/// terminal nor output; its data are here-documents ($name << end ... end). gnuplot reads no
/// settings of the user, and no shell is used.
/// @throws Error{usage} for another ending; Error{output} if there is no gnuplot, if it fails (with
/// its own message), draws nothing or takes longer than plot.deadline, and if the file cannot be
/// written
void run_gnuplot(std::string_view script, const Plot& plot);

/// `text` as a quoted string of a gnuplot script that its enhanced text mode does not interpret.
std::string gnuplot_quoted(std::string_view text);

}  // namespace eqt::figures
