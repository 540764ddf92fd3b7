// SPDX-License-Identifier: Apache-2.0
#include "report/timeline.hpp"

#include <fstream>
#include <iostream>

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
using metrics::Activity;
using metrics::TimelineRecord;

namespace {

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

/// Two ranks, `steps` steps of a second: rank 0 computes for half of it and waits, rank 1 computes.
std::string lines(int steps) {
  std::string text;
  for (int s = 1; s <= steps; ++s)
    text += fmt::format(
        R"({{"type":"timeline","step":{0},"rank":0,"spans":[["compute",{0},{0}.5],["wait",{0}.5,{1}]]}}
{{"type":"timeline","step":{0},"rank":1,"spans":[["compute",{0},{1}],["transfer",{0}.25,{0}.75]]}}
)",
        s, s + 1);
  return text;
}

void write(const std::string& folder, const std::string& text) {
  std::ofstream(folder + "/timeline.jsonl") << text;
}

nlohmann::json phases(double compute, double transfer) {
  return {{"data", 0},
          {"compute", compute},
          {"encode", 1},
          {"transfer", transfer},
          {"decode", 1},
          {"update", 0},
          {"total", compute + transfer + 2}};
}

}  // namespace

TEST_CASE("steps are chosen by A:B", "[report]") {
  CHECK(parse_steps("3:7").first == 3);
  CHECK(parse_steps("3:7").last == 7);
  CHECK(parse_steps("12").last == 12);
  for (const std::string wrong : {"", ":", "1:", ":2", "0:2", "3:2", "-1:2", "a:b", "1:2:3", "1.5"})
    eqt::test::says(eqt::test::refusal(Kind::usage, [&] { (void)parse_steps(wrong); }), "--steps");
}

TEST_CASE("the last steps of a timeline are read, or those asked for", "[report]") {
  const eqt::test::TemporaryFolder folder;
  CHECK(read_timeline(folder.path(), 2, {}).empty());  // no file
  write(folder.path(), lines(9));
  const std::vector<TimelineRecord> last = read_timeline(folder.path(), 2, {});
  REQUIRE(last.size() == 8);
  CHECK(last.front().step == 6);
  CHECK(last.back().step == 9);
  CHECK(last.back().rank == 1);
  const std::vector<TimelineRecord> some = read_timeline(folder.path(), 2, StepRange{2, 3});
  REQUIRE(some.size() == 4);
  CHECK(some[0].step == 2);
  REQUIRE(some[0].spans.size() == 2);
  CHECK(some[0].spans[1].activity == Activity::wait);
  CHECK(some[0].spans[1].begin == 2.5);
  CHECK(some[0].spans[1].end == 3);
  // A run that went back has a step twice; a line that was cut off does not count.
  write(folder.path(), lines(2) + R"({"step":2,"rank":0,"spans":[["update",7,8]]})" + "\n" +
                           R"({"step":2,"rank":0,"sp)");
  const std::vector<TimelineRecord> again = read_timeline(folder.path(), 2, {});
  REQUIRE(again.size() == 4);
  CHECK(again[2].spans[0].activity == Activity::update);
}

TEST_CASE("a line that is none names file and line", "[report]") {
  for (const std::string wrong :
       {"x", "[]", "{}", R"({"step":1,"rank":0})", R"({"step":0,"rank":0,"spans":[]})",
        R"({"step":1,"rank":2,"spans":[]})", R"({"step":1,"rank":-1,"spans":[]})",
        R"({"step":1,"rank":0,"spans":{}})", R"({"step":1,"rank":0,"spans":[["compute",1]]})",
        R"({"step":1,"rank":0,"spans":[["sleep",1,2]]})",
        R"({"step":1,"rank":0,"spans":[["compute",2,1]]})",
        R"({"step":1,"rank":0,"spans":[["compute",1,NaN]]})",
        R"({"step":1,"rank":0,"spans":[["compute","1",2]]})"}) {
    CAPTURE(wrong);
    const eqt::test::TemporaryFolder folder;
    write(folder.path(), lines(1) + wrong + "\n");
    const std::string sentence =
        eqt::test::refusal(Kind::data, [&] { (void)read_timeline(folder.path(), 2, {}); });
    eqt::test::says(sentence, "timeline.jsonl:3");
  }
}

TEST_CASE("a timeline has a row per rank, from its first moment on", "[report]") {
  const eqt::test::TemporaryFolder folder;
  eqt::test::make_run(folder.path(), {});
  write(folder.path(), lines(9));
  const Run run = read_run(folder.path());
  const Drawing drawing =
      timeline_drawing(run, read_timeline(folder.path(), 2, StepRange{2, 3}), "timeline");
  CHECK(has(drawing.title, "steps 2 to 3"));
  // Begin and end in seconds since the first moment, and the rank.
  CHECK(has(drawing.script, "\n0 0.5 0\n0 1 1\n1 1.5 0\n1 2 1\n"));
  CHECK(has(drawing.script, "\n0.5 1 0\n1.5 2 0\n"));
  CHECK(has(drawing.script, "\n0.25 0.75 1\n1.25 1.75 1\n"));
  CHECK_FALSE(has(drawing.script, "update"));  // there is none
  CHECK(has(drawing.description, "rank 0 computes 1 s, waits 1 s; rank 1 computes 2 s, waits 0 s"));
}

TEST_CASE("a timeline that cannot be drawn is said to be left out", "[report]") {
  const eqt::test::TemporaryFolder folder;
  eqt::test::make_run(folder.path(), {});
  const auto drawings = [&](const std::optional<StepRange>& range) {
    Drawings all;
    draw_timelines({read_run(folder.path())}, range, all);
    return all;
  };
  CHECK(drawings({}).all.empty());
  CHECK(drawings({}).left_out.empty());
  CHECK(drawings(StepRange{1, 2}).left_out.empty());  // no file
  write(folder.path(), lines(9));
  CHECK(drawings({}).all.size() == 1);
  REQUIRE(drawings(StepRange{20, 30}).left_out.size() == 1);
  CHECK(has(drawings(StepRange{20, 30}).left_out[0], "none of the steps 20 to 30"));
  write(folder.path(), lines(8000));
  const Drawings many = drawings(StepRange{1, 8000});
  CHECK(many.all.empty());
  REQUIRE(many.left_out.size() == 1);
  CHECK(has(many.left_out[0], "--steps"));
}

TEST_CASE("the table of waits names the slowest rank", "[report]") {
  const eqt::test::TemporaryFolder folder;
  // Two epochs of ten steps.
  eqt::test::make_run(folder.path(), {});
  CHECK(waiting_table({read_run(folder.path())}).rows.empty());
  eqt::test::MadeRun made;
  std::ofstream records(folder.path() + "/metrics.jsonl");
  records << run_record_of(made).dump() << "\n";
  for (std::size_t i = 0; i < 2; ++i) {
    nlohmann::json epoch = epoch_record_of(made, i);
    epoch["rank_seconds"] = {phases(3, 5), phases(7, 1)};
    records << epoch.dump() << "\n";
  }
  records.close();
  const Table table = waiting_table({read_run(folder.path())});
  REQUIRE(table.rows.size() == 2);
  // 3 s of computing, 2 s of coding, 5 s of waiting in ten steps.
  CHECK(table.rows[0][0].text == "rank 0");
  CHECK(*table.rows[0][1].value == Approx(0.3));
  CHECK(*table.rows[0][2].value == Approx(0.2));
  CHECK(*table.rows[0][3].value == Approx(0.5));
  CHECK(*table.rows[0][4].value == Approx(0.5));
  CHECK(table.rows[0][4].text == "50.00");
  CHECK(table.rows[0][5].text != "slowest");
  CHECK(*table.rows[1][4].value == Approx(0.1));
  CHECK(table.rows[1][5].text == "slowest");
  REQUIRE(table.notes.size() == 1);
  CHECK(has(table.notes[0], "rank 1 is the slowest: it works 0.9000 s"));
  CHECK(has(table.notes[0], "others waits 0.5000 s"));

  std::ofstream(folder.path() + "/metrics.jsonl", std::ios::app)
      << R"({"type":"epoch","epoch":3,"step":30,"rank_seconds":[{}]})"
      << "\n";
  eqt::test::says(eqt::test::refusal(Kind::data, [&] { (void)read_run(folder.path()); }),
                  "rank_seconds");
}

TEST_CASE("a report has the timeline, the waits, and how messages were held", "[report]") {
  const eqt::test::TemporaryFolder folder;
  eqt::test::MadeRun made;
  made.run = {{"emulated_link", "latency_ms=50"}};
  eqt::test::make_run(folder.path(), made);
  write(folder.path(), lines(3));
  const std::string text =
      make_report({.folders = {folder.path()}, .out = "", .tables = {}, .steps = ""});
  CHECK(has(text, "EQT_LINK=latency_ms=50"));
  if (!figures::plot_available()) {
    std::cout << "[eqt-skip] gnuplot is not installed\n";
    return;
  }
  std::ifstream file(folder.path() + "/report/timeline.svg");
  const std::string svg((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  CHECK(has(svg, "<svg"));
  CHECK(has(svg, "steps 1 to 3"));
}
