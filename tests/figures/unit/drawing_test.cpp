// SPDX-License-Identifier: Apache-2.0
// Plot scripts of curves and bars: data, axes and names as gnuplot must get them.

#include "figures/drawing.hpp"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "codec/catalogue.hpp"
#include "figures/colours.hpp"
#include "support/catch.hpp"

using namespace eqt::figures;

namespace {
bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}
}  // namespace

TEST_CASE("a drawing of curves has every point, one data block per curve") {
  const std::string script =
      curves_drawing({.title = "a_b", .x = "x", .y = "y", .log_x = true, .log_y = false},
                     {{"one", {{1, 0.5}, {2, 0.25}}}, {"t\"wo", {{3, std::nan("")}}}})
          .script;
  CHECK(has(script, "$c0 << end\n1 0.5 NaN NaN\n2 0.25 NaN NaN\nend\n"));
  CHECK(has(script, "$c1 << end\n3 NaN NaN NaN\nend\n"));
  CHECK(has(script, "set logscale x"));
  CHECK_FALSE(has(script, "set logscale y"));
  CHECK(has(script, "title \"a\\\\_b\""));
  CHECK(has(script, "title \"t\\\"wo\""));
}

TEST_CASE("curves of compressors have the colours that a report gives them") {
  const std::string script =
      curves_drawing({.title = "t", .x = "x", .y = "y"}, {{"qsgd, 4 bits", {{1, 0.5}, {2, 0.25}}},
                                                          {"e-elastiquant", {{1, 0.5}, {2, 0.2}}}})
          .script;
  const auto style = [](const char* name) { return "'" + std::string(colour_of(name)) + "'"; };
  CHECK(script.find(style("qsgd")) < script.find(style("e-elastiquant")));
}

TEST_CASE("a drawing of bars has a row per group and a bar in it for each series") {
  const Drawing drawing = bars_drawing({.title = "t",
                                        .unit = "y",
                                        .logarithmic = false,
                                        .series = {"a", "b"},
                                        .groups = {{"g", {1, 2}}, {"h", {3, 4.5}}}});
  CHECK(has(drawing.script, "set ytics (\"g\" 0, \"h\" 1)"));
  CHECK(has(drawing.script, "\n0 1 2\n1 3 4.5\n"));
  // Each in 0.4 of a row, from 0.4 above its middle to 0.4 below.
  CHECK(has(drawing.script, "using 2:1:(0):2:($1-0.4):($1-0.04)"));
  CHECK(has(drawing.script, "using 3:1:(0):3:($1+0):($1+0.36)"));
  CHECK(drawing.description == "y of g, h: a, b.");
}

TEST_CASE("every compressor of the program has its own colour") {
  std::vector<std::string> names;
  for (const auto choice : eqt::codec::CompressorRow::all()) {
    INFO(choice->name);
    CHECK(has_own_colour(choice->name));
    const auto colours = eqt::figures::colours();
    CHECK(std::ranges::find(colours, colour_of(choice->name)) != colours.end());
    names.emplace_back(colour_of(choice->name));
  }
  std::ranges::sort(names);
  CHECK(std::ranges::adjacent_find(names) == names.end());
}
