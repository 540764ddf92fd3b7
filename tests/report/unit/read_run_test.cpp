// SPDX-License-Identifier: Apache-2.0
#include "report/read_run.hpp"

#include <fmt/format.h>
#include <sys/stat.h>

#include <map>

#include "core/error.hpp"
#include "report/comparison.hpp"
#include "support/catch.hpp"
#include "support/run_folders.hpp"
#include "support/temporary_folder.hpp"

using namespace eqt;
using namespace eqt::report;
using test::MadeRun;
namespace fs = std::filesystem;

namespace {

template <typename Act>
Error error_of(Act act) {
  try {
    act();
  } catch (const Error& error) {
    return error;
  }
  FAIL("no error");
  throw 0;
}

bool says(const Error& error, const char* words) {
  return std::string(error.what()).find(words) != std::string::npos;
}

bool remarks_on(const Run& run, const char* words) {
  for (const std::string& remark : run.remarks)
    if (remark.find(words) != std::string::npos) return true;
  return false;
}

void append(const fs::path& path, const std::string& text) {
  std::ofstream(path, std::ios::app) << text;
}

}  // namespace

TEST_CASE("a finished run is read with config, epochs and summary", "[report]") {
  const test::TemporaryFolder folder;
  MadeRun made{.compressor = "qsgd", .seed = "7", .ranks = 4};
  made.run = {{"class_histogram", {{1, 2}, {3, 4}}}};
  test::make_run(folder.path(), made);
  const Run run = read_run(folder.path());
  CHECK(run.finished);
  CHECK(run.ranks == 4);
  CHECK(run.seed == "7");
  CHECK(run.setting("compressor.name") == "qsgd");
  CHECK(run.setting("train.batch_size") == "64");
  REQUIRE(run.epochs.size() == 2);
  CHECK(run.epochs[1].train_loss == 1.0);
  CHECK(run.outcome.test_accuracy == 0.5);
  CHECK(run.outcome.sent_bytes == 8000000);
  CHECK(run.epochs[0].mean_quantization_variance == 0.0625);
  CHECK(run.outcome.mean_quantization_variance == 0.03125);
  // Two epochs of ten steps and ten seconds each.
  CHECK(run.outcome.step_seconds.total == Approx(1.0));
  CHECK(run.outcome.step_seconds.encode == Approx(0.125));
  CHECK(run.class_histogram[1][0] == 3);
  CHECK(run.remarks.empty());
}

TEST_CASE("an epoch in which a run stopped and went on has the summary's seconds", "[report]") {
  // Three epochs of ten steps. Of the second one's 16 seconds the record has the last 10 alone,
  // and 3 MB of its 4.
  MadeRun made{.losses = {3.0, 2.0, 1.0}, .accuracies = {0.1, 0.2, 0.3}};
  const nlohmann::json start = {
      {"step", 0}, {"ranks", 2}, {"time", 1}, {"hosts", nlohmann::json::array({"b0"})}};
  nlohmann::json again = start;
  again["step"] = 15;
  made.sent_bytes = 3e6;
  made.summary = {{"epoch_seconds",
                   {{"data", 0},
                    {"compute", 6},
                    {"encode", 1.25},
                    {"transfer", 4},
                    {"decode", 0.625},
                    {"update", 0.625},
                    {"total", 12}}},
                  {"sent_bytes", 10000000},
                  {"starts", {start, again}}};
  for (const bool known : {true, false}) {
    INFO(known);
    if (!known) made.summary.erase("starts");
    const test::TemporaryFolder folder;
    test::make_run(folder.path(), made);
    const Run run = read_run(folder.path());
    CHECK(run.outcome.step_seconds.total == Approx(1.2));
    CHECK(run.outcome.step_seconds.compute == Approx(0.6));
    CHECK(run.outcome.step_seconds.transfer == Approx(0.4));
    CHECK(run.outcome.step_seconds.encode == Approx(0.125));
    const std::size_t stopped = known ? 1 : 0;
    for (std::size_t i = 0; i < 3; ++i) {
      CHECK(run.epochs[i].seconds.total == Approx(i == stopped ? 16 : 10));
      CHECK(run.epochs[i].sent_bytes == (i == stopped ? 4000000 : 3000000));
    }
  }
}

TEST_CASE("a summary whose seconds are those of the records changes no epoch", "[report]") {
  const test::TemporaryFolder folder;
  MadeRun made;
  made.summary = {{"epoch_seconds", {{"compute", 5}, {"total", 10}}}};
  test::make_run(folder.path(), made);
  for (const Epoch& epoch : read_run(folder.path()).epochs) CHECK(epoch.seconds.total == 10);
}

TEST_CASE("epochs after the step to which a run went back are void", "[report]") {
  const test::TemporaryFolder folder;
  MadeRun made{.losses = {3.0, 2.0, 1.0}, .accuracies = {0.1, 0.2, 0.3}, .finished = false};
  test::make_run(folder.path(), made);
  append(folder.path() + "/metrics.jsonl",
         R"({"type":"note","step":30,"text":"back","back_to":10})"
         "\n" +
             test::epoch_record_of({.losses = {3.0, 0.5}, .accuracies = {0.1, 0.6}}, 1).dump() +
             "\n");
  const Run run = read_run(folder.path());
  REQUIRE(run.epochs.size() == 2);
  CHECK(run.epochs[0].train_loss == 3.0);
  CHECK(run.epochs[1].train_loss == 0.5);
  CHECK(remarks_on(run, "went back to a checkpoint once"));
}

TEST_CASE("steps of a run without an epoch that come again count once", "[report]") {
  const test::TemporaryFolder folder;
  MadeRun made{
      .losses = nlohmann::json::array(), .accuracies = nlohmann::json::array(), .finished = false};
  test::make_run(folder.path(), made);
  for (const int step : {1, 2, 3, 2, 3})
    append(folder.path() + "/metrics.jsonl",
           fmt::format(R"({{"type":"step","step":{},"loss":{},"sent_bytes":10,)"
                       R"("seconds":{{"total":1}}}})"
                       "\n",
                       step, step));
  const Run run = read_run(folder.path());
  CHECK(run.outcome.sent_bytes == 30);
  CHECK(run.outcome.train_loss == 2.0);
  CHECK(run.outcome.step_seconds.total == Approx(1));
}

TEST_CASE("losses of steps are read, as many together as a plot has no points for", "[report]") {
  const test::TemporaryFolder folder;
  MadeRun made;
  made.run = {{"total_steps", 1000}};  // of 400 points at most: three steps together
  test::make_run(folder.path(), made);
  const auto add = [&](int step, const std::string& loss) {
    append(folder.path() + "/metrics.jsonl",
           fmt::format(R"({{"type":"step","step":{},"epoch":1,"loss":{},"sent_bytes":10}})"
                       "\n",
                       step, loss));
  };
  for (const int step : {1, 2, 3, 4}) add(step, std::to_string(step));
  add(5, "null");
  add(6, "8");
  add(7, "100");
  add(7, "7");  // comes again: the run went back
  const Run run = read_run(folder.path());
  REQUIRE(run.step_losses.size() == 3);
  CHECK(run.step_losses[0].mean() == 2.0);  // of 1, 2, 3
  CHECK(run.step_losses[1].mean() == 6.0);  // of 4 and 8
  CHECK(run.step_losses[1].last == 6);
  CHECK(run.step_losses[2].mean() == 7.0);
}

TEST_CASE("classes are called as the network's description says", "[report]") {
  const test::TemporaryFolder folder;
  test::make_run(folder.path(), {});
  CHECK(read_run(folder.path()).class_names.empty());
  std::ofstream(folder.path() + "/preprocessing.json")
      << R"({"class_names": ["cat", 3, "d\u0007og"]})";
  CHECK(read_run(folder.path()).class_names ==
        std::vector<std::string>{"cat", "?", "d\xEF\xBF\xBDog"});
  std::ofstream(folder.path() + "/preprocessing.json") << "{";
  CHECK(read_run(folder.path()).class_names.empty());
}

TEST_CASE("a run that went on with other ranks says so, and is none of its seeds", "[report]") {
  const test::TemporaryFolder folder;
  MadeRun made{.ranks = 2, .finished = false};
  made.run = {{"class_histogram", {{1, 2}, {3, 4}}}};
  test::make_run(folder.path(), made);
  const auto seconds = nlohmann::json{{"total", 1}};
  nlohmann::json last =
      test::epoch_record_of({.losses = {0, 0, 0.5}, .accuracies = {0, 0, 0.5}}, 2);
  last["rank_seconds"] = {seconds};
  made.ranks = 1;
  made.run = {{"class_histogram", {{4, 6}}}};
  append(folder.path() + "/metrics.jsonl",
         test::run_record_of(made).dump() + "\n" + last.dump() + "\n");
  const Run run = read_run(folder.path());
  CHECK(run.ranks == 1);
  CHECK(run.setting("ranks") == "2, then 1");
  CHECK(run.class_histogram.size() == 1);
  CHECK(run.epochs.size() == 3);
  CHECK(remarks_on(run, "ran on 2, then 1 ranks"));
}

TEST_CASE("plugins are read by name, with the hash of their file", "[report]") {
  const test::TemporaryFolder folder;
  MadeRun made;
  test::make_run(folder.path() + "/without", made);
  CHECK(read_run(folder.path() + "/without").plugins.empty());
  const nlohmann::json plugin = {{"name", "mine"}, {"file", "/x/mine.so"}, {"hash", "00aa"}};
  made.run["plugins"] = nlohmann::json::array({plugin});
  test::make_run(folder.path() + "/with", made);
  using Plugins = std::map<std::string, std::string>;
  CHECK(read_run(folder.path() + "/with").plugins == Plugins{{"mine", "00aa"}});
  made.run["plugins"] = nlohmann::json::array({"mine"});
  test::make_run(folder.path() + "/wrong", made);
  const Error error = error_of([&] { read_run(folder.path() + "/wrong"); });
  CHECK(error.kind() == Kind::data);
  CHECK(std::string(error.what()).find("plugins") != std::string::npos);
}

TEST_CASE("the conditions name precision, 8-bit kernels and their memory", "[report]") {
  const test::TemporaryFolder folder;
  MadeRun made;
  test::make_run(folder.path() + "/exact", made);
  made.settings = {{"model", {{"precision", "int8"}}}};
  made.run = {
      {"int8",
       {{"kernels", "avx2-pair"}, {"arena_bytes", 13'000'000}, {"saved_bytes", 12'400'000}}}};
  made.summary = {{"clipped_values", 7}};
  test::make_run(folder.path() + "/rounded", made);
  const std::vector<Run> runs = {read_run(folder.path() + "/exact"),
                                 read_run(folder.path() + "/rounded")};
  CHECK_FALSE(runs[0].int8);
  CHECK_FALSE(runs[0].outcome.clipped_values);
  CHECK(runs[1].outcome.clipped_values == 7);
  std::map<std::string, std::string> rows;
  for (const auto& row : conditions_table(runs).rows) rows[row[0].text] = row[1].text;
  CHECK(rows["precision"] == "fp32, int8");
  CHECK(rows["8-bit kernels"] == "avx2-pair");
  CHECK(rows["8-bit values of a step [MB]"] == "13, 12.4 of them kept for the backward pass");

  made.run["int8"]["arena_bytes"] = "many";
  test::make_run(folder.path() + "/damaged", made);
  CHECK(says(error_of([&] { read_run(folder.path() + "/damaged"); }), "\"arena_bytes\""));
}

TEST_CASE("a run is judged by the metrics of its task, an older one by its accuracy", "[report]") {
  const test::TemporaryFolder folder;
  MadeRun made;
  test::make_run(folder.path() + "/old", made);
  const Run old = read_run(folder.path() + "/old");
  REQUIRE(old.metrics.size() == 1);
  CHECK((old.metrics[0].name == "accuracy" && old.metrics[0].higher_is_better));
  made.accuracies = {nullptr, nullptr};
  made.run["metrics"] = nlohmann::json::parse(R"([
      {"name": "mse", "title": "MSE", "higher_is_better": false},
      {"name": "r2", "title": "R2", "higher_is_better": true}])");
  made.summary = {{"test_mse", 0.5}, {"test_r2", 0.75}};
  test::make_run(folder.path() + "/new", made);
  const Run run = read_run(folder.path() + "/new");
  REQUIRE(run.metrics.size() == 2);
  CHECK((run.metrics[0].title == "MSE" && !run.metrics[0].higher_is_better));
  CHECK(run.outcome.metrics.at("mse") == 0.5);
  CHECK(run.outcome.metrics.at("r2") == 0.75);
  CHECK_FALSE(run.outcome.test_accuracy);
  for (const char* wrong : {"3", R"([{"name": "../x"}])", R"(["mse"])"}) {
    made.run["metrics"] = nlohmann::json::parse(wrong);
    test::make_run(folder.path() + "/wrong", made);
    CHECK(says(error_of([&] { read_run(folder.path() + "/wrong"); }), "metrics"));
  }
}

TEST_CASE("an unfinished run has the figures of its last epoch", "[report]") {
  const test::TemporaryFolder folder;
  MadeRun made{.finished = false};
  made.losses = {3.0, 2.0, 1.5};
  made.accuracies = {0.1, 0.3, nullptr};
  made.settings = {{"train", {{"epochs", 5}}}};
  test::make_run(folder.path(), made);
  append(folder.path() + "/metrics.jsonl", R"({"type":"epoch","epoch":4,"st)");
  const Run run = read_run(folder.path());
  CHECK_FALSE(run.finished);
  CHECK(run.planned_epochs == 5);
  CHECK(run.outcome.epochs == 3);
  CHECK(run.outcome.train_loss == 1.5);
  CHECK(run.outcome.test_accuracy == 0.3);  // of the last evaluation
  CHECK(run.outcome.sent_bytes == 12000000);
  CHECK(run.outcome.compression_ratio == 2.0);
  CHECK(run.outcome.mean_quantization_variance == 0.0625);
  CHECK_FALSE(run.outcome.wall_seconds);
  CHECK(remarks_on(run, "cut off"));
}

TEST_CASE("a run in its first epoch shows its steps", "[report]") {
  const test::TemporaryFolder folder;
  MadeRun made{.finished = false};
  made.losses = nlohmann::json::array();
  made.accuracies = nlohmann::json::array();
  test::make_run(folder.path(), made);
  for (const auto& [step, loss] : {std::pair{1, "3"}, {2, "null"}, {3, "2"}})
    append(folder.path() + "/metrics.jsonl",
           fmt::format(R"({{"type":"step","step":{},"loss":{},"seconds":{{"total":4}},)"
                       R"("sent_bytes":10}})"
                       "\n",
                       step, loss));
  const Run run = read_run(folder.path());
  REQUIRE(run.epochs.size() == 1);
  CHECK(run.outcome.epochs == 0);
  CHECK(run.outcome.steps == 3);
  CHECK(run.outcome.train_loss == 2.5);
  CHECK(run.outcome.sent_bytes == 30);
  CHECK(run.outcome.step_seconds.total == Approx(4));
}

TEST_CASE("figures that are not finite are gaps, with a remark", "[report]") {
  const test::TemporaryFolder folder;
  MadeRun made;
  made.losses = {2.0, nullptr};
  test::make_run(folder.path(), made);
  const Run run = read_run(folder.path());
  CHECK_FALSE(run.epochs[1].train_loss);
  CHECK(remarks_on(run, "epoch 2 was not finite"));

  // Python's json writes words that are not JSON.
  append(folder.path() + "/metrics.jsonl",
         R"({"type":"epoch","epoch":3,"step":30,"train_loss":NaN,"test_loss":-Infinity,)"
         R"("note":"NaN \" Infinity","seconds":{}})"
         "\n");
  const Run again = read_run(folder.path());
  REQUIRE(again.epochs.size() == 3);
  CHECK_FALSE(again.epochs[2].train_loss);
  CHECK_FALSE(again.epochs[2].test_loss);
  CHECK(remarks_on(again, "2 figures are NaN or infinite"));
}

TEST_CASE("replicas that differ give a remark", "[report]") {
  const test::TemporaryFolder folder;
  MadeRun made;
  made.summary = {{"replicas_identical", false}};
  test::make_run(folder.path(), made);
  CHECK(remarks_on(read_run(folder.path()), "replicas differ"));
}

TEST_CASE("another schema is refused", "[report]") {
  const test::TemporaryFolder folder;
  MadeRun made;
  made.run = {{"schema", 2}};
  test::make_run(folder.path(), made);
  const Error newer = error_of([&] { read_run(folder.path()); });
  CHECK(newer.kind() == Kind::data);
  CHECK(says(newer, "schema 1, found 2"));
  made.run = {{"schema", nullptr}};
  test::make_run(folder.path(), made);
  CHECK(says(error_of([&] { read_run(folder.path()); }), "found none"));
}

TEST_CASE("malformed records are refused with file and line", "[report]") {
  const test::TemporaryFolder folder;
  test::make_run(folder.path(), {});
  const std::string records = folder.path() + "/metrics.jsonl";
  for (const char* line : {"{\"type\":\n", "[1]\n",
                           R"({"type":3})"
                           "\n",
                           R"({"type":"epoch","epoch":-1})"
                           "\n",
                           R"({"type":"epoch","epoch":9,"train_loss":"2"})"
                           "\n",
                           R"({"type":"epoch","epoch":2,"step":20})"
                           "\n"}) {
    test::make_run(folder.path(), {});
    append(records, line);
    const Error error = error_of([&] { read_run(folder.path()); });
    INFO(line << error.what());
    CHECK(error.kind() == Kind::data);
    CHECK(says(error, "metrics.jsonl:6"));
  }
  std::ofstream(records) << R"({"type":"epoch","epoch":1})"
                         << "\n";
  CHECK(says(error_of([&] { read_run(folder.path()); }), "record of the run first"));
}

TEST_CASE("a document of any depth does not overflow the stack", "[report]") {
  const test::TemporaryFolder folder;
  test::make_run(folder.path(), {});
  std::string deep;
  for (int i = 0; i < 1000000; ++i) deep += "{\"a\":";
  deep += "1" + std::string(1000000, '}');
  std::ofstream(folder.path() + "/config.json") << "{\"seed\": 3, \"b\": " << deep << "}";
  CHECK(read_run(folder.path()).seed == "3");
  append(folder.path() + "/metrics.jsonl",
         R"({"type":"epoch","epoch":3,"train_loss":)" + deep + "}\n");
  CHECK(error_of([&] { read_run(folder.path()); }).kind() == Kind::data);
}

TEST_CASE("damaged documents are refused with their name", "[report]") {
  const test::TemporaryFolder folder;
  for (const char* file : {"config.json", "summary.json"}) {
    test::make_run(folder.path(), {});
    std::ofstream(folder.path() + "/" + file) << "{\"epochs\": 2";
    const Error error = error_of([&] { read_run(folder.path()); });
    CHECK(error.kind() == Kind::data);
    CHECK(says(error, file));
  }
  MadeRun made;
  for (const nlohmann::json& histogram :
       {nlohmann::json({{1, 2}, {3}}), nlohmann::json({{1, -2}}), nlohmann::json(5)}) {
    made.run = {{"class_histogram", histogram}};
    test::make_run(folder.path(), made);
    CHECK(says(error_of([&] { read_run(folder.path()); }), "class_histogram"));
  }
  made.run = {{"ranks", 0}};
  test::make_run(folder.path(), made);
  CHECK(says(error_of([&] { read_run(folder.path()); }), "ranks"));
}

TEST_CASE("texts from a folder have no control characters left", "[report]") {
  const test::TemporaryFolder folder;
  test::make_run(folder.path(), {.name = "a\x1b[2Jb\n"});
  const Run run = read_run(folder.path());
  CHECK(run.name.find('\x1b') == std::string::npos);
  CHECK(run.name.find('\n') == std::string::npos);
}

TEST_CASE("run folders are found in subfolders, each once; reports and checkpoints are none",
          "[report]") {
  const test::TemporaryFolder folder;
  const fs::path root = folder.path();
  test::make_run(root / "sweep" / "b", {});
  test::make_run(root / "sweep" / "a", {});
  fs::create_directories(root / "sweep" / "a" / "checkpoints");
  std::ofstream(root / "sweep" / "a" / "checkpoints" / "config.json") << "{}";
  fs::create_directories(root / "sweep" / "report");
  const std::vector<std::string> found =
      run_folders({root.string(), (root / "sweep" / "a").string(), (root / "sweep").string()});
  REQUIRE(found.size() == 2);
  CHECK(found[0].ends_with("sweep/a"));
  CHECK(found[1].ends_with("sweep/b"));
}

TEST_CASE("a path that is no folder, or has no run, is refused", "[report]") {
  const test::TemporaryFolder folder;
  CHECK(error_of([&] { run_folders({folder.path() + "/nowhere"}); }).kind() == Kind::usage);
  CHECK(error_of([&] { run_folders({folder.path()}); }).kind() == Kind::data);
}

TEST_CASE("reading does not block on anything but regular files", "[report]") {
  const test::TemporaryFolder folder;
  test::make_run(folder.path(), {.finished = false});
  REQUIRE(mkfifo((folder.path() + "/summary.json").c_str(), 0600) == 0);
  CHECK_FALSE(read_run(folder.path()).finished);
}

TEST_CASE("a sweep's plan and how a run ended come from beside the run", "[report]") {
  const test::TemporaryFolder folder;
  test::make_run(folder.path() + "/run", {.finished = false});
  std::ofstream(folder.path() + "/run.plan.json")
      << R"({"sha256": "x", "seconds": {"10": 12.5, "100": null, "fast": 1, "-1": 2, "1e3": "3"},
             "epochs": {"10": [8, 4.5], "100": [1, null], "fast": [1], "20": 3},
             "one_board": 40.5})";
  std::ofstream(folder.path() + "/run.state.json") << R"({"state": "diverged", "exit": 4})";
  const Run run = read_run(folder.path() + "/run");
  CHECK(run.planned_seconds ==
        std::map<double, Figure>{{10, 12.5}, {100, Figure()}, {1000, Figure()}});
  CHECK(run.planned_epoch_seconds ==
        std::map<double, std::vector<double>>{{10, {8, 4.5}}, {20, {}}});
  CHECK(run.planned_one_board == 40.5);
  CHECK(run.row.empty());
  CHECK(run.end == "diverged");
  for (const char* text : {"", "{", "[1]", R"({"seconds": 3, "state": 4, "one_board": "1"})"}) {
    std::ofstream(folder.path() + "/run.plan.json") << text;
    std::ofstream(folder.path() + "/run.state.json") << text;
    CHECK(read_run(folder.path() + "/run").planned_seconds.empty());
    CHECK_FALSE(read_run(folder.path() + "/run").planned_one_board);
    CHECK(read_run(folder.path() + "/run").end == "unfinished");
  }
}

TEST_CASE("a sweep's link rate comes from its scheme", "[report]") {
  const test::TemporaryFolder folder;
  test::make_run(folder.path() + "/run", {});
  std::ofstream(folder.path() + "/run.recipe.json") << R"({"link": "100mbit"})";
  CHECK(read_run(folder.path() + "/run").row == "run");
  const std::string seed = folder.path() + "/topk-1,train.steps=5,seed=12";
  test::make_run(seed, {});
  CHECK(read_run(seed).row.empty());
  for (const char* end : {"", ",100mbit"}) {
    test::make_run(seed + end, {});
    std::ofstream(seed + end + ".recipe.json") << "{}";
    CHECK(read_run(seed + end + "/").row == std::string("topk-1,train.steps=5") + end);
  }
  CHECK(read_run(folder.path() + "/run/").setting("link.rate") == "100mbit");
}
