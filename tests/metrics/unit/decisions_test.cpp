// SPDX-License-Identifier: Apache-2.0
#include "metrics/decisions.hpp"

#include <fstream>
#include <string>
#include <vector>

#include "core/error.hpp"
#include "metrics/run_files.hpp"
#include "metrics/sink.hpp"
#include "records_support.hpp"
#include "support/catch.hpp"
#include "support/refusal.hpp"

using namespace eqt;
using namespace eqt::metrics;
using namespace eqt::metrics::test;
using Catch::Matchers::ContainsSubstring;

namespace {

DecisionRecord batches(StepId step, std::vector<double> sizes) {
  return {.step = step, .kind = "batches", .values = std::move(sizes), .why = "rank 1 is slower"};
}

std::vector<StepId> steps_of(const std::vector<DecisionRecord>& decisions) {
  std::vector<StepId> steps;
  for (const DecisionRecord& decision : decisions) steps.push_back(decision.step);
  return steps;
}

}  // namespace

TEST_CASE("decisions are read as they were written, each kind by itself") {
  const TemporaryFolder folder;
  {
    const auto sink = make_folder_sink(folder.path().string(), true);
    sink->write(batches(50, {70, 58}));
    sink->write(DecisionRecord{.step = 60, .kind = "quorum", .values = {1, 0.1}, .why = ""});
    sink->write(batches(100, {80, 48}));
  }
  const std::string path = (folder.path() / run_files::kDecisions).string();
  const Replay replay(read_decisions(path, "batches"));
  CHECK(steps_of(replay.all()) == std::vector<StepId>{50, 100});
  REQUIRE(replay.after(100) != nullptr);
  CHECK(replay.after(100)->values == std::vector<double>{80, 48});
  CHECK(replay.after(100)->why == "rank 1 is slower");
  CHECK(replay.after(99) == nullptr);
  CHECK(replay.after(101) == nullptr);
  CHECK(read_decisions(path, "quorum").at(0).values == std::vector<double>{1, 0.1});
  CHECK(read_decisions(path, "grades").empty());
}

TEST_CASE("a new run forgets the decisions of the one before; a resumed one those after its step") {
  const TemporaryFolder folder;
  const std::string path = (folder.path() / run_files::kDecisions).string();
  {
    const auto sink = make_folder_sink(folder.path().string(), true);
    sink->write(batches(50, {70, 58}));
    sink->write(batches(100, {80, 48}));
  }
  {
    const auto sink = make_folder_sink(folder.path().string(), true, StepId{60});
    sink->write(batches(90, {81, 47}));
  }
  CHECK(steps_of(read_decisions(path, "batches")) == std::vector<StepId>{50, 90});
  make_folder_sink(folder.path().string(), true);
  CHECK_FALSE(std::filesystem::exists(path));
}

TEST_CASE("decisions after the step to which the run went back are void") {
  const TemporaryFolder folder;
  const std::string path = (folder.path() / run_files::kDecisions).string();
  const auto went_back = [](StepId from, StepId to) {
    return NoteRecord{.step = from, .text = "it went back", .back_to = to};
  };
  {
    const auto sink = make_folder_sink(folder.path().string(), true);
    sink->write(went_back(5, 0));
    CHECK_FALSE(std::filesystem::exists(path));  // there was nothing to undo
    for (const StepId step : {10u, 20u, 26u, 28u}) sink->write(batches(step, {1}));
    sink->write(went_back(28, 20));
    sink->write(batches(30, {2}));
  }
  CHECK(steps_of(read_decisions(path, "batches")) == std::vector<StepId>{10, 20, 30});
  make_folder_sink(folder.path().string(), true, StepId{27});
  CHECK(steps_of(read_decisions(path, "batches")) == std::vector<StepId>{10, 20});
}

TEST_CASE("of two decisions for a step the later line counts") {
  const TemporaryFolder folder;
  {
    const auto sink = make_folder_sink(folder.path().string(), true);
    for (const double size : {1.0, 2.0}) sink->write(batches(50, {size}));
  }
  const auto read = read_decisions((folder.path() / run_files::kDecisions).string(), "batches");
  REQUIRE(read.size() == 1);
  CHECK(read[0].values == std::vector<double>{2});
}

TEST_CASE("a line that is no decision is refused by its number") {
  const TemporaryFolder folder;
  const std::string path = (folder.path() / run_files::kDecisions).string();
  const std::string good = R"({"type":"decision","step":50,"kind":"batches","values":[64,64]})";
  for (const std::string bad :
       {"{", "[]", R"({"step":-1,"kind":"batches","values":[1]})", R"({"step":1,"values":[1]})",
        R"({"step":1,"kind":"batches","values":["a"]})",
        R"({"step":1.5,"kind":"a","values":[]})"}) {
    std::ofstream(path) << good << "\n" << bad << "\n";
    CHECK_THAT(eqt::test::refusal(Kind::data, [&] { read_decisions(path, "batches"); }),
               ContainsSubstring("line 2"));
  }
  for (const std::string& other :
       {path + ".missing", folder.path().string(), std::string("/dev/zero")})
    CHECK_THAT(eqt::test::refusal(Kind::data, [&] { read_decisions(other, "batches"); }),
               ContainsSubstring("expected the decisions of a run at " + other + ", but"));
}
