// Plot scripts of analyses: data, axes and names as gnuplot must get them.

#include "app/analyze/table.hpp"

#include <cmath>
#include <string>

#include "support/catch.hpp"

using namespace eqt::app;

namespace {
bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}
}  // namespace

TEST_CASE("a script of curves holds every point, in data blocks of their own") {
  const std::string script =
      curves_script({.title = "a_b", .x = "x", .y = "y", .log_x = true, .log_y = false},
                    {{"one", {{1, 0.5}, {2, 0.25}}}, {"t\"wo", {{3, std::nan("")}}}});
  CHECK(has(script, "$curve0 << end_of_curve\n1 0.5\n2 0.25\nend_of_curve\n"));
  CHECK(has(script, "$curve1 << end_of_curve\n3 NaN\nend_of_curve\n"));
  CHECK(has(script, "set logscale x"));
  CHECK_FALSE(has(script, "set logscale y"));
  CHECK(has(script, "set title \"a\\\\_b\""));
  CHECK(has(script, "title \"t\\\"wo\""));
}

TEST_CASE("a script of bars has a line per group and a column per series") {
  const std::string script = bars_script({.title = "t",
                                          .y = "y",
                                          .log_y = false,
                                          .series = {"a", "b"},
                                          .groups = {{"g", {1, 2}}, {"h", {3, 4.5}}}});
  CHECK(has(script, "\"g\" 1 2\n\"h\" 3 4.5\n"));
  CHECK(has(script, "using 2:xtic(1)"));
  CHECK(has(script, "using 3:xtic(1)"));
}
