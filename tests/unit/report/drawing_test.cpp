#include "report/drawing.hpp"

#include <algorithm>

#include "support/catch.hpp"
#include "support/made_runs.hpp"

using namespace eqt;
using namespace eqt::report;

namespace {

const Drawing& named(const Drawings& drawings, const std::string& name) {
  const auto found = std::ranges::find(drawings.all, name, &Drawing::name);
  REQUIRE(found != drawings.all.end());
  return *found;
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("curves have means, bands of a deviation and gaps", "[report]") {
  const std::vector<Run> runs = test::made_runs("qsgd");
  const Drawings drawings = drawings_of(groups_of(runs));
  // none: 4 and 4.1, mean 4.05, deviation 0.1 / sqrt(2) = 0.0707106781.
  CHECK(has(named(drawings, "loss-epochs").script, "\n1 4.05 3.97928932 4.12071068\n"));
  CHECK(has(named(drawings, "loss-epochs").script, "\n2 NaN NaN NaN\n"));
  // Epochs without evaluation are left out, so that the line goes on.
  CHECK(has(named(drawings, "accuracy-epochs").script, "\n1 20.5 "));
  CHECK_FALSE(has(named(drawings, "accuracy-epochs").script, "\n2 "));
  // 2 MB an epoch are 1 MB for each of two ranks; 5 s an epoch.
  CHECK(has(named(drawings, "accuracy-bytes").script, "\n3 60.5 "));
  CHECK(has(named(drawings, "accuracy-seconds").script, "\n15 60.5 "));
  CHECK(has(named(drawings, "accuracy-epochs").description, "none: 60.5 at 3; qsgd: 62.5 at 3"));
}

TEST_CASE("bars stack the rooms of a step", "[report]") {
  const std::vector<Run> runs = test::made_runs("qsgd");
  const Drawings drawings = drawings_of(groups_of(runs));
  // compute 0.25, encode 0, transfer 0.5, and nothing more.
  CHECK(has(named(drawings, "seconds-by-room").script, "\n0 0 0.25 0.25 0.75 0.75 0.75 0.75\n"));
  CHECK(has(named(drawings, "classes-1").script, "\n1 0 30 70\n"));
  CHECK(has(named(drawings, "classes-1").description, "up to 67 %"));  // 20 of 30
}

TEST_CASE("more classes than pixels share bars, so that a plot's work is bounded", "[report]") {
  std::vector<Run> runs = test::made_runs("qsgd");
  // 5000 classes of one sample each: 250 bars of 20.
  for (Run& run : runs) run.class_histogram = {std::vector<std::uint64_t>(5000, 1)};
  const Drawings drawings = drawings_of(groups_of(runs));
  const Drawing& drawing = named(drawings, "classes-1");
  CHECK(has(drawing.script, "\n0 0 20 40 60 "));
  CHECK(has(drawing.script, " 4980 5000\n"));
  CHECK(has(drawing.script, "[c=0:249]"));
  CHECK(has(drawing.description, "5000 classes in 250 bars"));
  // As many classes as bars, and one more: a bar of two classes.
  for (Run& run : runs) run.class_histogram = {std::vector<std::uint64_t>(250, 1)};
  CHECK(has(named(drawings_of(groups_of(runs)), "classes-1").script, "\n0 0 1 2 3 "));
  for (Run& run : runs) run.class_histogram = {std::vector<std::uint64_t>(251, 1)};
  const Drawings more = drawings_of(groups_of(runs));
  CHECK(has(named(more, "classes-1").script, "\n0 0 2 3 4 "));
  CHECK(has(named(more, "classes-1").script, " 250 251\n"));
}

TEST_CASE("what no run recorded is not drawn, and said so", "[report]") {
  const std::vector<Run> runs = test::made_runs("qsgd");
  const Drawings drawings = drawings_of(groups_of(runs));
  CHECK(std::ranges::find(drawings.all, "consensus-epochs", &Drawing::name) == drawings.all.end());
  CHECK(std::ranges::any_of(drawings.left_out, [](const std::string& sentence) {
    return has(sentence, "Consensus distance");
  }));
}
