// Drawings become files.

#pragma once

#include <string>
#include <vector>

#include "report/drawing.hpp"
#include "report/page.hpp"

namespace eqt::report {

struct Drawn {
  std::vector<Picture> pictures;
  std::vector<std::string> files;   // below the folder
  std::vector<std::string> failed;  // sentences: what was not drawn, and why
};

/// Draws one at `path`, by whose ending it is .svg, with its title and description in the file, or
/// .png.
/// @throws Error{usage} for another ending, Error{output} see metrics::run_gnuplot()
void draw_file(const Drawing& drawing, const std::string& path);

/// Draws each as NAME.svg and NAME.png in the folder, which is there. Without gnuplot nothing is
/// drawn and one sentence says so; a drawing that gnuplot fails at is left out with its words.
/// @throws Error{output} if a file cannot be read back
Drawn draw_all(const std::vector<Drawing>& drawings, const std::string& folder);

}  // namespace eqt::report
