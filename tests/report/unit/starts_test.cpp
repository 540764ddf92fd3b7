// SPDX-License-Identifier: Apache-2.0
#include "report/starts.hpp"

#include <fmt/format.h>

#include <fstream>
#include <iostream>
#include <sstream>

#include "figures/gnuplot.hpp"
#include "report/read_run.hpp"
#include "report/report.hpp"
#include "support/catch.hpp"
#include "support/refusal.hpp"
#include "support/run_folders.hpp"
#include "support/temporary_folder.hpp"

using namespace eqt;
using namespace eqt::report;
using Catch::Matchers::ContainsSubstring;

namespace {

/// Four hosts, then one is lost, comes back, and another one comes with it.
const char* const kStarts =
    R"({"step":0,"from":"the beginning","ranks":4,"hosts":["b0","b1","b2","b3"],"time":1000,"steps_lost":0,"seconds_lost":0}
{"step":40,"from":"a state in memory","ranks":3,"hosts":["b0","b1","b2"],"time":1060.5,"steps_lost":12,"seconds_lost":4.125}
{"step":70,"from":"a checkpoint","ranks":5,"hosts":["b0","b1","b2","b3","b4"],"time":1090,"steps_lost":0,"seconds_lost":2.5}
{"step":71,"from":"a checkpoint","ranks":5,"hosts":["b0","b1","b2","b3","b4"],"time":1100,"steps_lost":1,"seconds_lost":3}
)";

/// A hundred steps of 0.1 s, but for those named.
void make_steps(const std::string& folder, const std::map<int, double>& others) {
  test::make_run(folder, {});
  std::ofstream records(folder + "/metrics.jsonl", std::ios::app);
  for (int step = 1; step <= 100; ++step)
    records << fmt::format(
        R"({{"type":"step","step":{},"epoch":1,"loss":1,"seconds":{{"data":9,"total":{}}}}})"
        "\n",
        step, others.contains(step) ? others.at(step) : 0.1);
}

void write_starts(const std::string& folder, const std::string& text) {
  std::ofstream(folder + "/starts.jsonl") << text;
}

std::string cell(const Table& table, std::size_t row, std::string_view key) {
  const auto column = std::ranges::find(table.columns, key, &figures::Column::key);
  REQUIRE(column != table.columns.end());
  return table.rows.at(row).at(static_cast<std::size_t>(column - table.columns.begin())).text;
}

Drawings interruptions_of(const std::string& folder) {
  Drawings drawings;
  draw_interruptions({read_run(folder)}, drawings);
  return drawings;
}

}  // namespace

TEST_CASE("a table has a row per start, with who is missing or came back", "[report]") {
  const test::TemporaryFolder folder;
  test::make_run(folder.path(), {});
  write_starts(folder.path(), kStarts);
  const Table table = starts_table({read_run(folder.path())});
  REQUIRE(table.rows.size() == 4);
  CHECK(cell(table, 0, "start") == "start 1");
  CHECK(cell(table, 0, "seconds") == "0.0");
  CHECK(cell(table, 0, "hosts") == "b0, b1, b2, b3");
  CHECK(cell(table, 1, "seconds") == "60.5");
  CHECK(cell(table, 1, "step") == "40");
  CHECK(cell(table, 1, "from") == "a state in memory");
  CHECK(cell(table, 1, "ranks") == "3");
  CHECK(cell(table, 1, "hosts") == "without b3");
  CHECK(cell(table, 1, "steps_lost") == "12");
  CHECK(cell(table, 1, "seconds_lost") == "4.1");
  CHECK(*table.rows[1].back().value == 4.125);
  CHECK(cell(table, 2, "hosts") == "with b3 again, with b4 for the first time");
  CHECK(cell(table, 3, "hosts") == "the same hosts");
  CHECK(table.notes.size() == 1);
}

TEST_CASE("where hosts are not recorded, ranks are compared", "[report]") {
  const test::TemporaryFolder folder;
  test::make_run(folder.path(), {});
  write_starts(folder.path(), R"({"step":8,"ranks":4,"time":10}
{"step":9,"ranks":3,"time":12}
{"step":9,"ranks":3,"time":13}
)");
  const Table table = starts_table({read_run(folder.path())});
  CHECK(cell(table, 0, "hosts") == "-");
  CHECK(cell(table, 1, "hosts") == "3 ranks instead of 4");
  CHECK(cell(table, 2, "hosts") == "the same ranks");
  CHECK_THAT(table.notes.at(0), ContainsSubstring("earlier starts are not known"));
}

TEST_CASE("a run that was started once has no table and no marks", "[report]") {
  const test::TemporaryFolder folder;
  make_steps(folder.path(), {});
  const std::string first = std::string(kStarts).substr(0, std::string(kStarts).find('\n') + 1);
  for (const std::string& text : {std::string(), first}) {
    write_starts(folder.path(), text);
    CHECK(starts_table({read_run(folder.path())}).rows.empty());
    CHECK(interruptions_of(folder.path()).all.empty());
  }
}

TEST_CASE("the summary has the starts where their file is missing", "[report]") {
  const test::TemporaryFolder folder;
  test::MadeRun made;
  std::istringstream lines(kStarts);
  made.summary["starts"] = nlohmann::json::array();
  for (std::string line; std::getline(lines, line);)
    made.summary["starts"].push_back(nlohmann::json::parse(line));
  test::make_run(folder.path(), made);
  CHECK(read_run(folder.path()).starts.size() == 4);
  write_starts(folder.path(), "");
  CHECK(read_run(folder.path()).starts.empty());
}

TEST_CASE("a start that is none names file and line", "[report]") {
  for (const std::string wrong :
       {"x", "[]", "{}", R"({"ranks":0,"time":1})", R"({"ranks":2})", R"({"ranks":2,"time":null})",
        R"({"ranks":2,"time":1,"hosts":"b0"})", R"({"ranks":2,"time":1,"hosts":[1]})",
        R"({"ranks":2,"time":1,"step":-1})", R"({"ranks":2,"time":1,"steps_lost":"1"})"}) {
    CAPTURE(wrong);
    const test::TemporaryFolder folder;
    test::make_run(folder.path(), {});
    write_starts(folder.path(), R"({"ranks":2,"time":1})" + ("\n" + wrong) + "\n");
    test::says(test::refusal(Kind::data, [&] { (void)read_run(folder.path()); }), "starts.jsonl:2");
  }
}

TEST_CASE("a pause is more than a second and more than five median steps", "[report]") {
  const auto steps = [](std::vector<double> seconds) {
    std::vector<StepSeconds> all;
    for (const double s : seconds) all.push_back({all.size() + 1, s});
    return all;
  };
  const auto found = [](const std::vector<StepSeconds>& pauses) {
    std::vector<std::uint64_t> numbers;
    for (const StepSeconds& pause : pauses) numbers.push_back(pause.step);
    return numbers;
  };
  using Numbers = std::vector<std::uint64_t>;
  CHECK(pauses_of({}, {}).empty());
  // Steps of 0.1 s: a second is the limit. The first step is never one.
  CHECK(found(pauses_of(steps({9, 0.1, 1, 0.1, 1.1, 0.1, 0.1}), {})) == Numbers{5});
  // Steps of 2 s: 10 s are the limit.
  CHECK(found(pauses_of(steps({2, 2, 10, 2, 10.5, 2, 2}), {})) == Numbers{5});
  // The first step after a start is none.
  Start start;
  start.step = 4;
  CHECK(pauses_of(steps({2, 2, 2, 2, 10.5, 2, 2}), {start}).empty());
}

TEST_CASE("starts and pauses are marked over the steps", "[report]") {
  const test::TemporaryFolder folder;
  // The first step after a start takes long, too, and is no pause.
  make_steps(folder.path(), {{20, 7.25}, {41, 3.5}});
  CHECK_THAT(interruptions_of(folder.path()).all.at(0).description,
             ContainsSubstring("at step 20 pause of 7.2 s") &&
                 ContainsSubstring("at step 41 pause of 3.5 s"));
  write_starts(folder.path(), kStarts);
  const Drawings drawings = interruptions_of(folder.path());
  REQUIRE(drawings.all.size() == 1);
  const Drawing& drawing = drawings.all.front();
  CHECK(drawing.name == "interruptions");
  CHECK_THAT(drawing.description,
             ContainsSubstring("at step 40 start 2: without b3, 12 steps and 4.1 s lost") &&
                 ContainsSubstring("at step 70 start 3: with b3 again, with b4 for the first time, "
                                   "2.5 s lost") &&
                 ContainsSubstring("at step 71 start 4: the same hosts, 1 step and 3.0 s lost") &&
                 !ContainsSubstring("pause of 3.5 s"));
  CHECK_THAT(drawing.script,
             ContainsSubstring("set arrow from 20, graph 0 to 20, graph 1 nohead dt '.'") &&
                 ContainsSubstring("set arrow from 40, graph 0 to 40, graph 1 nohead dt '-'") &&
                 ContainsSubstring("set arrow from 71, graph 0 to 71, graph 1 nohead dt '-'") &&
                 ContainsSubstring("start 2: without b3, 12 steps and 4.1 s lost\" at 40") &&
                 // 380 pixels for 100 steps: one step after another mark there is no room.
                 !ContainsSubstring("\" at 71,") && ContainsSubstring("\n20 7.25 "));
}

TEST_CASE("steps that were taken again are no pauses", "[report]") {
  const test::TemporaryFolder folder;
  make_steps(folder.path(), {{99, 5.0}});
  std::ofstream(folder.path() + "/metrics.jsonl", std::ios::app)
      << R"({"type":"note","step":100,"text":"back","back_to":90})"
         "\n";
  CHECK(read_run(folder.path()).pauses.empty());
}

TEST_CASE("a report prints the starts, and draws them", "[report]") {
  const test::TemporaryFolder folder;
  make_steps(folder.path(), {{20, 7.25}});
  write_starts(folder.path(), kStarts);
  const auto report = [&] {
    return make_report({.folders = {folder.path()}, .out = "", .tables = {}, .steps = ""});
  };
  CHECK_THAT(report(), ContainsSubstring("without b3") && ContainsSubstring("start 4"));
  std::ifstream page(folder.path() + "/report/report.html");
  const std::string html((std::istreambuf_iterator<char>(page)), std::istreambuf_iterator<char>());
  CHECK_THAT(html, ContainsSubstring("with b3 again, with b4 for the first time"));
  if (!figures::plot_available()) {
    std::cout << "[eqt-skip] gnuplot is not installed\n";
    return;
  }
  CHECK_THAT(html, ContainsSubstring("start 2: without b3, 12 steps and 4.1 s lost</text>") ||
                       ContainsSubstring("start 2: without b3, 12 steps and 4.1 s lost</tspan>"));
}
