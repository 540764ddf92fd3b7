// SPDX-License-Identifier: Apache-2.0
#include "report/grades.hpp"

#include <filesystem>
#include <fstream>
#include <iostream>

#include "figures/colours.hpp"
#include "figures/draw.hpp"
#include "figures/gnuplot.hpp"
#include "report/read_run.hpp"
#include "report/report.hpp"
#include "support/catch.hpp"
#include "support/refusal.hpp"
#include "support/run_folders.hpp"
#include "support/temporary_folder.hpp"

using namespace eqt;
using namespace eqt::figures;
using namespace eqt::report;
using Catch::Matchers::ContainsSubstring;

namespace {

const char* const kDecided =
    R"({"type":"decision","step":2,"kind":"grades","values":[77,0,1,1],"why":"first"}
{"type":"decision","step":4,"kind":"grades","values":[77,0,1,1],"why":"as it was"}
{"type":"decision","step":12,"kind":"grades","values":[77,2,1,0],"why":"the link is slow"}
)";

/// Steps 1 to 3, and noise of the first two.
const char* const kSteps = R"({"type":"noise","step":1,"noise_share":0.5,"noise_scale":3}
{"type":"step","step":1,"seconds":{"total":0.25},"sent_bytes":4000000}
{"type":"noise","step":2,"noise_share":null,"noise_scale":3}
{"type":"step","step":2,"seconds":{"total":0.5},"sent_bytes":2000000}
{"type":"step","step":3,"seconds":{"total":0.75},"sent_bytes":1000000}
)";

eqt::test::MadeRun adapting_run() {
  eqt::test::MadeRun made;
  made.compressor = "auto";
  made.settings = {{"compressor", {{"noise_share", 0.125}}}};
  made.run = {{"grades",
               {{"menu", {"coarse", "middle", "fine"}},
                {"tensors", {"conv1.weight", "conv2.weight", "fc.weight"}},
                {"start", 1}}}};
  return made;
}

/// A run's folder with these decisions, and these lines after its records.
class AdaptingRun {
 public:
  explicit AdaptingRun(const std::string& decisions, const std::string& records = "",
                       const eqt::test::MadeRun& made = adapting_run()) {
    eqt::test::make_run(folder_.path(), made);
    std::ofstream(folder_.path() + "/decisions.jsonl") << decisions;
    std::ofstream(folder_.path() + "/metrics.jsonl", std::ios::app) << records;
  }
  Run read() const { return read_run(folder_.path()); }
  const std::string& path() const { return folder_.path(); }

 private:
  eqt::test::TemporaryFolder folder_;
};

}  // namespace

TEST_CASE("grades are boxes from decision to decision, in the network's order", "[report]") {
  Drawings drawings;
  draw_grades({AdaptingRun(kDecided).read()}, drawings);
  REQUIRE(drawings.all.size() == 1);
  const Drawing& drawing = drawings.all.front();
  CHECK(drawing.name == "grades");
  // The first tensor: middle up to step 2, coarse up to 12, fine up to the last step, 20. The
  // second keeps what it began with.
  CHECK_THAT(drawing.script, ContainsSubstring("\"conv1\" 0, \"conv2\" 1, \"fc\" 2"));
  CHECK_THAT(drawing.script, ContainsSubstring("$g0 << end\n2 12 0\n12 20 2\nend\n"));
  CHECK_THAT(drawing.script, ContainsSubstring("$g1 << end\n0 2 0\n0 20 1\n0 12 2\nend\n"));
  CHECK_THAT(drawing.script, ContainsSubstring("$g2 << end\n12 20 0\nend\n"));
  CHECK_THAT(drawing.script, ContainsSubstring("rgb '" + scale_colour(2, 3) + "' title \"fine\""));
  CHECK_THAT(drawing.description,
             ContainsSubstring("changed by 2 of 3 decisions") &&
                 ContainsSubstring("1 with coarse, 1 with middle, 1 with fine"));
}

TEST_CASE("a table tells when grades changed, what they became and why", "[report]") {
  const Table table = grades_table({AdaptingRun(kDecided).read()});
  REQUIRE(table.rows.size() == 2);
  CHECK(table.rows[0][0].text == "2");
  CHECK(table.rows[0][1].text == "1");  // only the first tensor: the others have been middle
  CHECK(table.rows[1][1].text == "2");
  CHECK(table.rows[1][3].text == "the link is slow");
  REQUIRE(table.notes.size() == 1);
  CHECK_THAT(table.notes.front(), ContainsSubstring("1 of 3 decisions left the grades"));
}

TEST_CASE("grades without a record of their names have numbers, from the first decision on",
          "[report]") {
  eqt::test::MadeRun made;
  Drawings drawings;
  draw_grades({AdaptingRun(kDecided, "", made).read()}, drawings);
  REQUIRE(drawings.all.size() == 1);
  CHECK_THAT(drawings.all.front().script,
             ContainsSubstring("\"tensor 1\" 0") && ContainsSubstring("title \"grade 2\"") &&
                 ContainsSubstring("$g0 << end\n2 12 0\n12 20 2\nend\n"));
}

TEST_CASE("decisions about other tensors or grades are refused with file and step", "[report]") {
  const auto refusal_of = [](const std::string& values) {
    const AdaptingRun made(R"({"step":6,"kind":"grades","values":)" + values + "}\n");
    return eqt::test::refusal(Kind::data, [&] { (void)read_grades(made.read()); });
  };
  for (const char* const values : {"[77,0,1]", "[77,0,1,3]", "[77,0,1,0.5]", "[77,0,1,-1]", "[]"})
    CHECK_THAT(refusal_of(values), ContainsSubstring("decisions.jsonl, step 6") &&
                                       ContainsSubstring("grades below 3 of 3 tensors"));
  CHECK(read_grades(AdaptingRun(R"({"step":6,"kind":"batches","values":[1,1]})").read())
            .decisions.empty());
}

TEST_CASE("steps that were taken again count once, and what is cut off or no JSON does not",
          "[report]") {
  const std::string again = R"({"type":"step","step":2,"seconds":{"total":9},"sent_bytes":8}
{"type":"step","step":3,"seco
{"type":"step","step":4,"seconds":{"total":1},"sent_bytes":1})";
  const StepCourse course = read_steps(AdaptingRun(kDecided, kSteps + again).read());
  CHECK(course.seconds.size() == 2);  // step 3 was before the run went back, step 4 is cut off
  CHECK(course.seconds.at(1) == 0.25);
  CHECK(course.seconds.at(2) == 9.0);
  CHECK(course.sent_bytes.at(2) == 8.0);
  CHECK(course.added_noise.at(1) == 0.5);
  CHECK_FALSE(course.added_noise.at(2).has_value());
  const AdaptingRun wrong(kDecided, R"({"type":"noise","step":1,"noise_share":"much"})"
                                    "\n");
  CHECK_THAT(eqt::test::refusal(Kind::data, [&] { (void)read_steps(wrong.read()); }),
             ContainsSubstring("metrics.jsonl:6") && ContainsSubstring("noise_share"));
}

TEST_CASE("noise is drawn with its limit, bytes and seconds beside it", "[report]") {
  Drawings drawings;
  draw_adaptation({AdaptingRun(kDecided, kSteps).read()}, drawings);
  REQUIRE(drawings.all.size() == 3);
  CHECK(drawings.all[0].name == "added-noise");
  CHECK_THAT(drawings.all[0].script,
             ContainsSubstring("$c0 << end\n1 0.5 NaN NaN\nend\n") &&
                 ContainsSubstring("\n0 0.125 NaN NaN\n2 0.125 NaN NaN\n") &&
                 ContainsSubstring("title \"limit 0.125\""));
  // 4, 2 and 1 MB of two ranks.
  CHECK_THAT(drawings.all[1].script,
             ContainsSubstring("\n1 2 NaN NaN\n2 1 NaN NaN\n3 0.5 NaN NaN\n"));
  CHECK_THAT(drawings.all[2].script,
             ContainsSubstring("\n1 0.25 NaN NaN\n2 0.5 NaN NaN\n3 0.75 NaN NaN\n"));
}

TEST_CASE("points of long runs are medians of neighbours", "[report]") {
  std::string steps;
  for (int s = 1; s <= 1000; ++s)
    steps += fmt::format(R"({{"type":"step","step":{},"seconds":{{"total":{}}},"sent_bytes":2}})"
                         "\n",
                         s, s % 5 == 0 ? 100 : 1);
  Drawings drawings;
  draw_adaptation({AdaptingRun(kDecided, steps).read()}, drawings);
  const std::string& script = drawings.all.back().script;
  // 200 points of 5 steps: one of five is slow.
  CHECK_THAT(script, ContainsSubstring("\n3 1 NaN NaN\n8 1 NaN NaN\n") &&
                         ContainsSubstring("\n998 1 NaN NaN\nend"));
}

TEST_CASE("runs that choose nothing have none of these", "[report]") {
  const eqt::test::MadeRun made;
  const AdaptingRun folder("", kSteps, made);
  Drawings drawings;
  draw_grades({folder.read()}, drawings);
  draw_adaptation({folder.read()}, drawings);
  CHECK(drawings.all.empty());
  CHECK(grades_table({folder.read()}).rows.empty());
}

TEST_CASE("the page has the pictures and the table of grades", "[report]") {
  if (!figures::plot_available()) {
    std::cout << "[eqt-skip] gnuplot is not installed\n";
    return;
  }
  const AdaptingRun folder(kDecided, kSteps);
  Request request;
  request.folders = {folder.path()};
  (void)make_report(request);
  std::ifstream file(folder.path() + "/report/report.html");
  const std::string page{std::istreambuf_iterator<char>(file), {}};
  CHECK_THAT(page, ContainsSubstring("grades by tensor") &&
                       ContainsSubstring("Noise added by compression") &&
                       ContainsSubstring("the link is slow"));
  for (const char* const name :
       {"grades.svg", "added-noise.svg", "seconds-by-step.svg", "bytes-by-step.svg", "changes.csv"})
    CHECK(std::filesystem::exists(folder.path() + "/report/" + name));
}
