// SPDX-License-Identifier: Apache-2.0
// Tables and drawings as one HTML page that needs no other file.

#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "figures/drawing.hpp"
#include "figures/table.hpp"

namespace eqt::figures {

struct Picture {
  Drawing drawing;
  std::string svg;  // as gnuplot wrote it
};

struct Page {
  std::string title;
  std::vector<std::string> warnings;
  std::vector<Table> results;    // what was compared
  std::vector<Table> published;  // published values next to ours
  std::vector<Picture> pictures;
  std::vector<std::string> left_out;  // plots that were possible but not made, and why
  std::vector<Table> background;      // how the runs were made
};

/// HTML with style, drawings and tables inside, and links to them; no script, no link to another
/// file, no external font. It follows the reader's light or dark scheme and fits into 360 pixels;
/// it has no empty sections.
std::string as_html(const Page& page);

/// The page's style sheet, with both backgrounds of colours.hpp.
std::string_view page_style();

}  // namespace eqt::figures
