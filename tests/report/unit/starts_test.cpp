// SPDX-License-Identifier: Apache-2.0
#include "report/starts.hpp"

#include <fstream>

#include "report/read_run.hpp"
#include "support/catch.hpp"
#include "support/refusal.hpp"
#include "support/run_folders.hpp"
#include "support/temporary_folder.hpp"

using namespace eqt;
using namespace eqt::figures;
using namespace eqt::report;
using Catch::Matchers::ContainsSubstring;

namespace {

struct Shown {
  Table table;
  Drawings drawings;
};

/// A run's folder with this text in starts.jsonl and these lines after its other records.
Shown shown_with(const std::string& starts, const std::string& records = "") {
  const eqt::test::TemporaryFolder folder;
  eqt::test::make_run(folder.path(), {});
  if (!starts.empty()) std::ofstream(folder.path() + "/starts.jsonl") << starts;
  std::ofstream(folder.path() + "/metrics.jsonl", std::ios::app) << records;
  const std::vector<Run> runs = {read_run(folder.path())};
  Shown shown{starts_table(runs), {}};
  draw_starts(runs, shown.drawings);
  return shown;
}

/// Three boards; after 60 s one is lost, which costs 6 s; after 120 s it is back, with a new one.
constexpr const char* kThreeStarts =
    R"({"step":0,"from":"the beginning","ranks":3,"hosts":["a","b","c"],"time":1000,"steps_lost":0,"seconds_lost":0}
{"step":50,"from":"a state in memory","ranks":2,"hosts":["a","c"],"time":1060,"steps_lost":4,"seconds_lost":6}
{"step":90,"from":"a checkpoint","ranks":4,"hosts":["a","b","c","d"],"time":1120,"steps_lost":0,"seconds_lost":1.5}
)";

std::vector<std::string> texts_of(const std::vector<Cell>& row) {
  std::vector<std::string> texts;
  for (const Cell& cell : row) texts.push_back(cell.text);
  return texts;
}

std::string step_line(int step, double seconds) {
  return "{\"type\":\"step\",\"step\":" + std::to_string(step) +
         ",\"loss\":1,\"seconds\":{\"total\":" + std::to_string(seconds) + "}}\n";
}

}  // namespace

TEST_CASE("each start says what changed and what was lost before it", "[report]") {
  const Shown shown = shown_with(kThreeStarts);
  REQUIRE(shown.table.rows.size() == 3);
  CHECK(texts_of(shown.table.rows[0]) == std::vector<std::string>{"start 1", "0.0", "0", "3",
                                                                  "3 hosts", "the beginning", "0",
                                                                  "0.0"});
  CHECK(texts_of(shown.table.rows[1]) == std::vector<std::string>{"start 2", "1.0", "50", "2",
                                                                  "without b", "a state in memory",
                                                                  "4", "6.0"});
  CHECK(texts_of(shown.table.rows[2]) == std::vector<std::string>{"start 3", "2.0", "90", "4",
                                                                  "with b, d", "a checkpoint", "0",
                                                                  "1.5"});
}

TEST_CASE("ranks over the time are 0 where nothing was gained", "[report]") {
  const Shown shown = shown_with(kThreeStarts);
  REQUIRE(shown.drawings.all.size() == 1);
  const Drawing& drawing = shown.drawings.all.front();
  CHECK(drawing.name == "starts");
  CHECK_THAT(drawing.description, ContainsSubstring("3 starts, 7.5 s lost"));
  // Lost from 54 s to 60 s, which is 0.9 to 1 minutes.
  CHECK_THAT(drawing.script, ContainsSubstring("0 3\n0.9 3\n0.9 0\n1 0\n1 2\n"));
}

TEST_CASE("a run of one start shows none", "[report]") {
  for (const char* text :
       {"", R"({"step":0,"from":"the beginning","ranks":1,"hosts":["a"],"time":5})"}) {
    const Shown shown = shown_with(text);
    CHECK(shown.table.rows.empty());
    CHECK(shown.drawings.all.empty());
  }
}

TEST_CASE("starts that are none are refused by file and line", "[report]") {
  for (const char* wrong : {"x\n", "{\"ranks\":0}\n", "{\"ranks\":1,\"hosts\":\"a\"}\n",
                            "{\"ranks\":1,\"hosts\":[1]}\n", "{\"ranks\":1,\"step\":-1}\n"})
    CHECK_THAT(eqt::test::refusal(Kind::data, [&] { (void)shown_with(wrong); }),
               ContainsSubstring("starts.jsonl:1"));
}

TEST_CASE("a step of a second and five times the median is a pause", "[report]") {
  std::string records;
  for (int step = 1; step <= 12; ++step) {
    double seconds = 0.25;
    if (step == 4) seconds = 0.75;  // long, but less than a second
    if (step == 7) seconds = 5;
    records += step_line(step, seconds);
  }
  const Shown shown = shown_with("", records);
  REQUIRE(shown.table.rows.size() == 1);
  CHECK(texts_of(shown.table.rows[0]) == std::vector<std::string>{"pause", "-", "7", "-",
                                                                  "a step took 20 times the median",
                                                                  "-", "0", "4.8"});
  // Slow steps that are all alike are no pauses, nor is one that was computed again without.
  std::string slow;
  for (int step = 1; step <= 12; ++step) slow += step_line(step, 3);
  CHECK(shown_with("", slow).table.rows.empty());
  CHECK(shown_with("", records + step_line(7, 0.25)).table.rows.empty());
}
