// The report as one HTML page that needs nothing beside itself.

#pragma once

#include <string>
#include <vector>

#include "report/drawing.hpp"
#include "report/table.hpp"

namespace eqt::report {

struct Picture {
  Drawing drawing;
  std::string svg;  // as gnuplot wrote it
};

struct Page {
  std::string title;
  std::vector<std::string> warnings;
  std::vector<Table> results;    // what was compared
  std::vector<Table> published;  // with published values beside ours
  std::vector<Picture> pictures;
  std::vector<std::string> left_out;  // plots that could have been there, and why they are not
  std::vector<Table> background;      // how the runs were made
};

/// HTML with all of it inline: style, drawings, tables; no script, no link, no font from elsewhere.
/// It follows the reader's light or dark scheme and fits 360 pixels; no section without content.
std::string as_html(const Page& page);

}  // namespace eqt::report
