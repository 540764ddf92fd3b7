// SPDX-License-Identifier: Apache-2.0
#include "report/drawing.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <set>
#include <tuple>

#include "figures/page.hpp"
#include "figures/script.hpp"
#include "support/catch.hpp"
#include "support/html_check.hpp"
#include "support/made_runs.hpp"

using namespace eqt;
using namespace eqt::figures;
using namespace eqt::report;

namespace {

const Drawing& named(const Drawings& drawings, std::string_view name) {
  const auto found = std::ranges::find(drawings.all, name, &Drawing::name);
  REQUIRE(found != drawings.all.end());
  return *found;
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("curves have means, bands of one deviation and gaps", "[report]") {
  const std::vector<Run> runs = test::made_runs("qsgd");
  const Drawings drawings = drawings_of(groups_of(runs));
  // float32: 4 and 4.1, mean 4.05, deviation 0.1 / sqrt(2) = 0.0707106781.
  CHECK(has(named(drawings, "loss-epochs").script, "\n1 4.05 3.97928932 4.12071068\n"));
  CHECK(has(named(drawings, "loss-epochs").script, "\n2 NaN NaN NaN\n"));
  // Epochs without evaluation are left out, so that the line is not interrupted.
  CHECK(has(named(drawings, "accuracy-epochs").script, "\n1 20.5 "));
  CHECK_FALSE(has(named(drawings, "accuracy-epochs").script, "\n2 "));
  // 2 MB an epoch are 1 MB for each of two ranks; 5 s an epoch.
  CHECK(has(named(drawings, "accuracy-bytes").script, "\n3 60.5 "));
  CHECK(has(named(drawings, "accuracy-seconds").script, "\n15 60.5 "));
  CHECK(has(named(drawings, "accuracy-epochs").description, "float32: 60.5 at 3; qsgd: 62.5 at 3"));
}

TEST_CASE("losses of steps are drawn as means of neighbours over seeds", "[report]") {
  std::vector<Run> runs = test::made_runs("qsgd");
  const auto drawn = [&] {
    const Drawings drawings = drawings_of(groups_of(runs));
    return std::ranges::count(drawings.all, "loss-steps", &Drawing::name);
  };
  CHECK(drawn() == 0);
  // float32: two seeds, steps 1 to 10 and 11 to 20; 20 / 10 and 40 / 10 are 2 and 4, mean 3.
  runs[0].step_losses = {{1, 10, 20, 10}, {11, 20, 10, 10}};
  runs[1].step_losses = {{1, 10, 40, 10}, {11, 20, 0, 0}};
  CHECK(drawn() == 1);
  const Drawings drawings = drawings_of(groups_of(runs));
  const std::string& script = named(drawings, "loss-steps").script;
  CHECK(has(script, "\n10 3 1.58578644 4.41421356\n"));  // deviation sqrt(2)
  CHECK(has(script, "\n20 1 1 1\n"));                    // the other seed's were not finite
  CHECK(has(script, "with lines "));
  runs[0].step_losses.pop_back();
  runs[1].step_losses.pop_back();
  CHECK(drawn() == 0);  // a point is no line
}

TEST_CASE("numbers on the horizontal axis do not overlap", "[report]") {
  // Steps of 1, 2 or 5 times a power of ten, as many as have room for their digits.
  CHECK(x_tics(0, 10, 380) == "set xtics 1\n");
  CHECK(x_tics(12000, 34000, 380) == "set xtics 5000\n");
  CHECK(x_tics(0.0061, 0.0253, 380) == "set xtics 0.005\n");
  CHECK(x_tics(0, 25000, 230) == "set xtics 10000\n");  // four tics of 55 pixels each
  CHECK(x_tics(0, 25000, 210) == "set xtics 20000\n");
  CHECK(x_tics(3, 3, 380).starts_with("set xtics 0.0"));
  // Means of equal values differ by a rounding: no step between them is left beside them.
  for (const double value : {1413.672576, -1413.672576, 5e-12, 5.6e300})
    CHECK(x_tics(std::nextafter(value, -INFINITY), value, 380) == x_tics(value, value, 380));
  CHECK(x_tics(0, 0, 380).starts_with("set xtics "));
  CHECK(x_tics(0, INFINITY, 380).empty());
  // Whatever the range: tics times the width of the widest number are at most the plot's.
  for (const double most : {1e-6, 0.3, 7.7, 99.0, 12345.0, 8e6, 3e12}) {
    INFO(most);
    const std::string line = x_tics(0, most, 300);
    const double step = std::stod(line.substr(line.rfind(' ')));
    CHECK(step > 0);
    CHECK(std::ceil(most / step) + 1 <= 300 / 19);
  }
}

TEST_CASE("a key has room for as many rows as gnuplot gives it", "[report]") {
  // gnuplot 5.4 puts entries of 7 letters into four columns, of 8 into three, of 21 into two, of 22
  // into one (SVG, 480 pixels).
  const auto rows = [](std::size_t letters) {
    const std::vector<std::string> labels(12, std::string(letters, 'x'));
    return height_of_key(labels) / height_of_key({"x"});
  };
  CHECK(rows(7) == 3);
  CHECK(rows(8) == 4);
  CHECK(rows(21) == 6);
  CHECK(rows(22) == 12);
}

TEST_CASE("errors of messages and of the mean are drawn where they were recorded", "[report]") {
  std::vector<Run> runs = test::made_runs("qsgd");
  const auto drawn = [&](const char* name) {
    const Drawings drawings = drawings_of(groups_of(runs));
    return std::ranges::count(drawings.all, name, &Drawing::name);
  };
  CHECK(drawn("variance-epochs") == 0);
  CHECK(drawn("mean-variance-epochs") == 0);
  for (Epoch& epoch : runs[2].epochs) {
    epoch.quantization_variance = 0.5;
    epoch.mean_quantization_variance = 0.25;
  }
  const Drawings drawings = drawings_of(groups_of(runs));
  CHECK(has(named(drawings, "variance-epochs").description, "qsgd: 0.5 at 3"));
  CHECK(has(named(drawings, "mean-variance-epochs").description, "qsgd: 0.25 at 3"));
}

TEST_CASE("bars of training have their seconds and the accuracy at their end", "[report]") {
  std::vector<Run> runs = test::made_runs("qsgd");
  // Three epochs of 5 s; the seeds' accuracies are 62 and 63 %.
  const Drawing drawing = named(drawings_of(groups_of(runs)), "training-seconds");
  CHECK(has(drawing.script, "\n1 15 0 \"15 s, 62.5 %\"\n"));
  CHECK(has(drawing.description, "qsgd: 15 s, 62.5 %"));
  for (Run& run : runs) run.epochs.clear();
  const Drawings without = drawings_of(groups_of(runs));
  CHECK(std::ranges::count(without.all, "training-seconds", &Drawing::name) == 0);
}

TEST_CASE("bars stack the phases of a step", "[report]") {
  const std::vector<Run> runs = test::made_runs("qsgd");
  const Drawings drawings = drawings_of(groups_of(runs));
  // compute 0.25, encode 0, transfer 0.5, and nothing more.
  CHECK(has(named(drawings, "seconds-by-phase").script, "\n0 0 0.25 0.25 0.75 0.75 0.75 0.75\n"));
  CHECK(has(named(drawings, "classes-1").script, "\n1 0 30 70\n"));
  CHECK(has(named(drawings, "classes-1").description, "up to 67 %"));  // 20 of 30
}

TEST_CASE(
    "if there are more classes than pixels, they share bars, so that a plot's work is bounded",
    "[report]") {
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

TEST_CASE("only plots that would have been possible are named as missing", "[report]") {
  std::vector<Run> runs = test::made_runs("qsgd");
  const Drawings drawings = drawings_of(groups_of(runs));
  CHECK(std::ranges::find(drawings.all, "consensus-epochs", &Drawing::name) == drawings.all.end());
  CHECK(drawings.left_out.empty());
  for (Run& run : runs)
    for (Epoch& epoch : run.epochs) epoch.test_accuracy = {};
  const std::vector<std::string> left_out = drawings_of(groups_of(runs)).left_out;
  REQUIRE(left_out.size() == 1);
  CHECK(has(left_out[0], "no run was evaluated"));
  for (Run& run : runs) run.emulated = true;
  CHECK(drawings_of(groups_of(runs)).left_out.empty());
}

TEST_CASE("a front of one group is not plotted", "[report]") {
  std::vector<Run> runs = test::made_runs("qsgd");
  runs.resize(2);  // of one compressor
  const Drawings drawings = drawings_of(groups_of(runs));
  CHECK(std::ranges::find(drawings.all, "pareto", &Drawing::name) == drawings.all.end());
}

TEST_CASE("points of the Pareto plot have bars of a deviation", "[report]") {
  const std::vector<Run> runs = test::made_runs("qsgd");
  const Drawings drawings = drawings_of(groups_of(runs));
  const Drawing& pareto = named(drawings, "pareto");
  // float32: 60 and 61 %, 3 MB each of two ranks; deviation 1 / sqrt(2).
  CHECK(has(pareto.script, "$p0 << end\n3 60.5 0 0.707106781\nend\n"));
  CHECK(has(pareto.script, "using 1:2:4 with yerrorbars"));
  // qsgd: 62 and 63 %: bars of 60.5 and 62.5 do not meet.
  CHECK_FALSE(has(pareto.description, "Uncertain"));
}

TEST_CASE("a compressor has one colour in every report", "[report]") {
  const std::vector<Run> some = test::made_runs("qsgd"), others = test::made_runs("topk");
  const auto some_groups = groups_of(some), other_groups = groups_of(others);
  CHECK(styles_of(some_groups)[0].colour == colour_of("none"));
  CHECK(styles_of(other_groups)[0].colour == colour_of("none"));
  CHECK(styles_of(some_groups)[1].colour == colour_of("qsgd"));
  // Groups of one compressor differ in dashes and shapes, or in colours if there is no other
  // compressor.
  std::vector<Run> alike = test::made_runs("qsgd");
  for (Run& run : alike) run.settings["ranks"] = run.seed;
  const std::vector<Style> styles = styles_of(groups_of(alike));
  REQUIRE(styles.size() == 4);
  std::set<std::tuple<std::string_view, std::size_t>> looks;
  std::set<std::size_t> shapes;
  for (const Style& style : styles) {
    looks.insert({style.colour, style.dash});
    shapes.insert(style.shape);
  }
  CHECK(looks.size() == 4);
  CHECK(shapes.size() == 4);
  alike.resize(2);
  CHECK(styles_of(groups_of(alike))[0].colour != styles_of(groups_of(alike))[1].colour);
}

namespace {

/// Relative luminance of "#rrggbb": Web Content Accessibility Guidelines 2.2.
double luminance(std::string_view colour) {
  double sum = 0;
  constexpr std::array kWeights = {0.2126, 0.7152, 0.0722};
  for (std::size_t i = 0; i < 3; ++i) {
    const double c = std::stoi(std::string(colour.substr(1 + 2 * i, 2)), nullptr, 16) / 255.0;
    sum += kWeights[i] * (c <= 0.04045 ? c / 12.92 : std::pow((c + 0.055) / 1.055, 2.4));
  }
  return sum;
}

double contrast(std::string_view a, std::string_view b) {
  const auto [dark, light] = std::minmax({luminance(a), luminance(b)});
  return (light + 0.05) / (dark + 0.05);
}

}  // namespace

TEST_CASE("every colour of every plot has a contrast of 3 to 1 on a light and a dark page",
          "[report]") {
  CHECK(contrast("#000000", "#ffffff") == Approx(21.0));  // the largest possible contrast
  CHECK(std::string(page_style()).find("--paper: #fff;") != std::string::npos);
  CHECK(std::string(page_style()).find(kDarkPage) != std::string::npos);
  std::vector<Run> runs = test::made_runs("qsgd");
  for (Run& run : runs)
    for (Epoch& epoch : run.epochs) {
      epoch.consensus_distance = 0.5;
      epoch.quantization_variance = epoch.mean_quantization_variance = 0.5;
    }
  std::string scripts = "'" + std::string(kNeutral) + "'";
  for (const std::string_view one : colours()) scripts += std::string(one);
  for (std::size_t i = 0; i < 16; ++i) scripts += scale_colour(i, 16);
  for (const Drawing& drawing : drawings_of(groups_of(runs)).all) {
    INFO(drawing.name);
    CHECK(test::count_of(drawing.script, "rgb '") == test::count_of(drawing.script, "rgb '#"));
    scripts += drawing.script;
  }
  std::size_t found = 0;
  for (std::size_t at = 0; (at = scripts.find('#', at)) != std::string::npos; ++at, ++found) {
    const std::string one = scripts.substr(at, 7);
    INFO(one);
    CHECK(contrast(one, kLightPage) >= 3);
    CHECK(contrast(one, kDarkPage) >= 3);
  }
  CHECK(found > 50);
}
