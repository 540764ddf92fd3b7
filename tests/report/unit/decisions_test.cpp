// SPDX-License-Identifier: Apache-2.0
#include "report/decisions.hpp"

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

Drawings drawings_with(const std::string& lines) {
  const eqt::test::TemporaryFolder folder;
  eqt::test::MadeRun made;
  made.ranks = 3;
  eqt::test::make_run(folder.path(), made);
  std::ofstream(folder.path() + "/decisions.jsonl") << lines;
  Drawings drawings;
  draw_decisions({read_run(folder.path())}, drawings);
  return drawings;
}

}  // namespace

TEST_CASE("batches are steps over time, with one line for ranks that have the same", "[report]") {
  const Drawings drawings = drawings_with(
      R"({"type":"decision","step":5,"kind":"batches","values":[80,80,32],"why":"slow"}
{"type":"decision","step":15,"kind":"batches","values":[85,85,22],"why":"slower"}
)");
  REQUIRE(drawings.all.size() == 1);
  const Drawing& drawing = drawings.all.front();
  CHECK(drawing.name == "batches");
  CHECK_THAT(drawing.description, ContainsSubstring("changed 2 times") &&
                                      ContainsSubstring("ranks 0, 1 64 at first, 85 in the end") &&
                                      ContainsSubstring("rank 2 64 at first, 22 in the end"));
  // From the first step to the last, 20, with an edge at each decision.
  CHECK_THAT(drawing.script, ContainsSubstring("0 64") && ContainsSubstring("5 64") &&
                                 ContainsSubstring("5 32") && ContainsSubstring("15 32") &&
                                 ContainsSubstring("15 22") && ContainsSubstring("20 22"));
}

TEST_CASE("runs that decided nothing about batches have no such plot", "[report]") {
  CHECK(drawings_with("").all.empty());
  CHECK(drawings_with(R"({"step":5,"kind":"quorum","values":[1,1,0]})").all.empty());
  CHECK(
      drawings_with(R"({"step":5,"kind":"batches","values":[1,1]})").all.empty());  // two of three
  CHECK_THAT(eqt::test::refusal(Kind::data, [] { drawings_with("{}"); }),
             ContainsSubstring("line 1"));
}
