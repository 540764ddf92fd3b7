// SPDX-License-Identifier: Apache-2.0
// gnuplot itself, if it is installed.

#include <fstream>
#include <iostream>
#include <sstream>
#include <string>

#include "core/error.hpp"
#include "figures/gnuplot.hpp"
#include "support/catch.hpp"
#include "support/temporary_folder.hpp"

namespace {

using namespace eqt;
using namespace eqt::figures;

std::string contents(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

}  // namespace

TEST_CASE("gnuplot draws SVG and PNG, and a script that it refuses does not change the file") {
  if (!plot_available()) {
    std::cout << "[eqt-skip] no gnuplot on PATH\n";
    return;
  }
  const std::string line = "$data << end\n1 1\n2 4\n3 9\nend\nplot $data using 1:2 with lines\n";
  const test::TemporaryFolder folder;
  const std::string svg = folder.path() + "/plot.svg", png = folder.path() + "/plot.png";
  run_gnuplot("set title " + gnuplot_quoted("a_b {c} ^d \"e\" \\f") + "\n" + line, {svg});
  const std::string drawn = contents(svg);
  CHECK(drawn.find("<svg") != std::string::npos);
  CHECK(drawn.find("a_b {c} ^d") != std::string::npos);
  run_gnuplot(line, {png});
  CHECK(contents(png).substr(1, 3) == "PNG");
  CHECK_THROWS_AS(run_gnuplot("plot nonsense(\n", {svg}), Error);
  CHECK(contents(svg) == drawn);
}
