// Plots, drawn by gnuplot in a process of its own.

#pragma once

#include <chrono>
#include <string>
#include <string_view>

namespace eqt::metrics {

/// Whether a program named gnuplot stands on PATH.
bool plot_available();

/// Where a plot goes and how large it is.
struct Plot {
  std::string path;               // its ending says how it is drawn: .svg or .png
  int width = 900, height = 600;  // [units of svg; pixels of png, times `scale`]
  int scale = 1;                  // of png: letters, lines and points grow with it
  std::chrono::seconds deadline{60};
};

/// Whether run_gnuplot() knows how to draw a file of that name, by its ending.
bool is_plot_path(std::string_view path);

/// Draws what `script` says and puts it at plot.path, complete or not at all. The script sets
/// neither terminal nor output; data stand in it as here-documents ($name << end ... end). gnuplot
/// reads no settings of the user's, and no shell is asked.
/// @throws Error{usage} for another ending; Error{output} where there is no gnuplot, with its own
/// last words where it fails, draws nothing or takes longer than plot.deadline, and where the file
/// cannot be written
void run_gnuplot(std::string_view script, const Plot& plot);

/// `text` as a quoted string of a gnuplot script, without meaning for its enhanced text mode.
std::string gnuplot_quoted(std::string_view text);

}  // namespace eqt::metrics
