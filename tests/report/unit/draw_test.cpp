// SPDX-License-Identifier: Apache-2.0
// Every plot of a report as gnuplot draws it, if it is installed.

#include "figures/draw.hpp"

#include <filesystem>
#include <iostream>
#include <string>
#include <vector>

#include "figures/gnuplot.hpp"
#include "report/drawing.hpp"
#include "support/catch.hpp"
#include "support/html_check.hpp"
#include "support/made_runs.hpp"
#include "support/temporary_folder.hpp"

using namespace eqt;
using namespace eqt::figures;
using namespace eqt::report;

namespace {

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("gnuplot draws every kind of plot, and does not execute names", "[report]") {
  if (!plot_available()) {
    std::cout << "[eqt-skip] gnuplot is not installed\n";
    return;
  }
  const test::TemporaryFolder folder;
  const std::string victim = folder.path() + "/victim";
  std::vector<Run> runs = test::made_runs("`touch " + victim + "` '\"; system('touch " + victim +
                                          "') # @{}^_&~ $c0 << end\\n</text><script>");
  for (Run& run : runs) {
    run.outcome.consensus_distance = 0.5;
    for (Epoch& epoch : run.epochs) {
      epoch.consensus_distance = epoch.test_loss = 0.5;
      epoch.quantization_variance = epoch.mean_quantization_variance = 0.5;
    }
  }
  const std::vector<Group> groups = groups_of(runs);
  const Drawings drawings = drawings_of(groups);
  CHECK(drawings.left_out.empty());
  const Drawn drawn = draw_all(drawings.all, folder.path());
  CHECK(drawn.failed.empty());
  CHECK(drawn.pictures.size() == drawings.all.size());
  CHECK(drawn.files.size() == 2 * drawings.all.size());
  CHECK_FALSE(std::filesystem::exists(victim));
  for (const std::string& file : drawn.files)
    CHECK(std::filesystem::file_size(folder.path() + "/" + file) > 1000);
  Page page;
  page.pictures = drawn.pictures;
  const std::string html = as_html(page);
  CHECK(test::unbalanced_tag(html) == "");
  CHECK(test::repeated_id(html) == "");
  CHECK_FALSE(has(html, "<script"));
  CHECK_FALSE(has(html, "http"));
}
