// SPDX-License-Identifier: Apache-2.0
// Makes files from drawings.

#pragma once

#include <chrono>
#include <cstdio>
#include <string>
#include <vector>

#include "figures/drawing.hpp"
#include "figures/page.hpp"

namespace eqt::figures {

// This is the time limit for one file. A small board takes seconds for the largest.
inline constexpr std::chrono::seconds kDrawingDeadline{60};

struct Drawn {
  std::vector<Picture> pictures;
  std::vector<std::string> files;   // below the folder
  std::vector<std::string> failed;  // sentences: drawings that failed, and why
};

/// Draws one to `path`, as .svg with title and description, or as .png.
/// @throws Error{usage} for another ending, Error{output} see run_gnuplot()
void draw_file(const Drawing& drawing, const std::string& path,
               std::chrono::seconds deadline = kDrawingDeadline);

/// Draws what drawing_of() returns if `path` names a file, after what was printed has left.
/// @throws Error{output}
template <typename DrawingOf>
void draw_if_asked(const std::string& path, const DrawingOf& drawing_of) {
  if (path.empty()) return;
  (void)std::fflush(stdout);
  draw_file(drawing_of(), path);
}

/// Draws each as NAME.svg and NAME.png in the folder, which must exist. Without gnuplot nothing is
/// drawn, and `failed` says so. If gnuplot fails, the drawing is left out and `failed` has its
/// message; if it takes longer than the deadline, so are all that follow.
/// @throws Error{output} if a file cannot be read back
Drawn draw_all(const std::vector<Drawing>& drawings, const std::string& folder,
               std::chrono::seconds deadline = kDrawingDeadline);

}  // namespace eqt::figures
