// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmath>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <thread>
#include <vector>

#include "core/error.hpp"
#include "core/flat_buffer.hpp"
#include "metrics/folder.hpp"
#include "metrics/output_file.hpp"
#include "metrics/sink.hpp"
#include "records_support.hpp"
#include "support/catch.hpp"
#include "support/refusal.hpp"

using namespace eqt;
using namespace eqt::metrics;
using namespace eqt::metrics::test;
using nlohmann::json;
namespace fs = std::filesystem;

namespace {

std::string text_of(const fs::path& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

std::vector<json> records_in(const fs::path& folder) {
  std::istringstream text(text_of(folder / "metrics.jsonl"));
  std::vector<json> records;
  for (std::string line; std::getline(text, line);) records.push_back(json::parse(line));
  return records;
}

std::set<std::string> keys_of(const json& object) {
  std::set<std::string> keys;
  for (const auto& [key, value] : object.items()) keys.insert(key);
  return keys;
}

const std::set<std::string> kPhaseKeys = {"data",   "compute", "encode", "transfer",
                                          "decode", "update",  "total"};

template <typename Act>
std::string output_error(Act act) {
  return eqt::test::refusal(Kind::output, act);
}

}  // namespace

TEST_CASE("records are read back from metrics.jsonl, one per line, immediately", "[metrics]") {
  const TemporaryFolder folder;
  const auto sink = make_folder_sink(folder.path() / "runs" / "r", true);
  const fs::path run = folder.path() / "runs" / "r";
  sink->write(run_record());
  CHECK(records_in(run).size() == 1);
  sink->write(step_record(1));
  CHECK(records_in(run).size() == 2);
  sink->write(epoch_record());
  const auto records = records_in(run);
  REQUIRE(records.size() == 3);

  CHECK(records[0].at("type") == "run");
  CHECK(records[0].at("schema") == 1);
  CHECK(records[0].at("name") == "a \"run\"");
  CHECK(records[0].at("config").at("seed") == 7);

  const json& step = records[1];
  CHECK(step.at("type") == "step");
  CHECK(keys_of(step) == std::set<std::string>{"type", "step", "epoch", "loss", "learning_rate",
                                               "seconds", "sent_bytes", "received_bytes"});
  CHECK(keys_of(step.at("seconds")) == kPhaseKeys);
  CHECK(step.at("step") == 1);
  CHECK(step.at("epoch") == 1);
  CHECK(step.at("loss") == 2.5);
  CHECK(step.at("learning_rate") == 0.1);
  CHECK(step.at("sent_bytes") == 1000);
  CHECK(step.at("received_bytes") == 1001);

  const json& epoch = records[2];
  CHECK(epoch.at("type") == "epoch");
  for (const char* key :
       {"epoch", "train_loss", "test_accuracy", "test_loss", "images_per_second", "seconds",
        "sent_bytes", "compression_ratio", "bits_per_value", "quantization_variance"})
    CHECK(epoch.contains(key));
  CHECK(epoch.at("test_accuracy") == 0.875);
  CHECK(epoch.at("quantization_variance") == 0.25);
  CHECK(epoch.at("mean_quantization_variance") == 0.0625);
  const json& seconds = epoch.at("seconds");
  CHECK(keys_of(seconds) == kPhaseKeys);
  CHECK(seconds.at("data") == 10);
  CHECK(seconds.at("compute") == 20);
  CHECK(seconds.at("encode") == 30);
  CHECK(seconds.at("transfer") == 40);
  CHECK(seconds.at("decode") == 50);
  CHECK(seconds.at("update") == 60);
  CHECK(seconds.at("total") == 210);
}

TEST_CASE("the run record has the partition", "[metrics]") {
  const TemporaryFolder folder;
  const auto sink = make_folder_sink(folder.path(), true);
  RunRecord run = run_record();
  sink->write(run);  // no partition: an emulated run
  run.partition = {
      .kind = "skew", .skew = 0.5, .leftover_samples = 3, .class_histogram = {{5, 0}, {1, 4}}};
  sink->write(run);
  run.partition = {.kind = "dirichlet", .alpha = 2, .class_histogram = {{9}}};
  sink->write(run);
  const auto records = records_in(folder.path());
  REQUIRE(records.size() == 3);
  for (const char* key : {"partition", "leftover_samples", "class_histogram"})
    CHECK(records[0].at(key).is_null());
  CHECK(records[1].at("partition") == json{{"kind", "skew"}, {"skew", 0.5}});
  CHECK(records[1].at("leftover_samples") == 3);
  CHECK(records[1].at("class_histogram") == json::parse("[[5, 0], [1, 4]]"));
  CHECK(records[2].at("partition") == json{{"kind", "dirichlet"}, {"alpha", 2}});
}

TEST_CASE("a profile is a record, also without records of steps", "[metrics]") {
  const TemporaryFolder folder;
  const auto sink = make_folder_sink(folder.path(), false);
  sink->write(run_record());
  sink->write(ProfileRecord{
      .step = 24,
      .steps = 5,
      .forward = 0.25,
      .backward = 0.5000004,
      .slices = {{.name = "fc.bias", .ready = 0.25}, {.name = "fc.weight", .ready = 0.375}}});
  const auto records = records_in(folder.path());
  REQUIRE(records.size() == 2);
  CHECK(records[1] == json::parse(R"({"type": "profile", "step": 24, "steps": 5,
      "forward_seconds": 0.25, "backward_seconds": 0.5,
      "slices": [{"slice": "fc.bias", "ready_seconds": 0.25},
                 {"slice": "fc.weight", "ready_seconds": 0.375}]})"));
}

TEST_CASE("timelines are lines of their own file, which a new run replaces", "[metrics]") {
  const TemporaryFolder folder;
  const fs::path path = folder.path() / "timeline.jsonl";
  const TimelineRecord record{
      .step = 3, .rank = 1, .spans = {{Activity::compute, 0.5, 1.25}, {Activity::wait, 1.25, 2}}};
  {
    const auto sink = make_folder_sink(folder.path(), true);
    sink->write(run_record());
    CHECK_FALSE(fs::exists(path));
    sink->write(record);
    TimelineRecord later = record;
    later.step = 5;
    sink->write(later);
  }
  CHECK(json::parse(text_of(path).substr(0, text_of(path).find('\n'))) ==
        json::parse(R"({"type": "timeline", "step": 3, "rank": 1,
                        "spans": [["compute", 0.5, 1.25], ["wait", 1.25, 2.0]]})"));
  make_folder_sink(folder.path(), true, 4);  // goes on after step 4
  const std::string kept = text_of(path);
  CHECK(std::ranges::count(kept, '\n') == 1);
  make_folder_sink(folder.path(), true);
  CHECK_FALSE(fs::exists(path));
}

TEST_CASE("starts are listed with what was lost before them", "[metrics]") {
  const TemporaryFolder folder;
  const fs::path path = folder.path() / "starts.jsonl";
  {
    const auto sink = make_folder_sink(folder.path(), true);
    sink->write(
        StartRecord{.from = "the beginning", .ranks = 2, .hosts = {"pi0", "pi1"}, .time = 100});
    for (StepId step = 1; step <= 10; ++step) {
      StepRecord record = step_record(step);
      record.seconds.total = step <= 7 ? 1000 : 0.5 * static_cast<double>(step);
      sink->write(record);
    }
  }
  std::ofstream(path, std::ios::app) << "{\"step\": 7, \"fr";  // a start that was cut short
  const auto sink = make_folder_sink(folder.path(), true, 7);
  sink->write(
      StartRecord{.step = 7, .from = "a checkpoint", .ranks = 1, .hosts = {"pi1"}, .time = 200});
  sink->write(summary());
  const json starts = json::parse(text_of(folder.path() / "summary.json")).at("starts");
  REQUIRE(starts.size() == 2);
  CHECK(starts[0] == json{{"step", 0},
                          {"from", "the beginning"},
                          {"ranks", 2},
                          {"hosts", {"pi0", "pi1"}},
                          {"steps_lost", 0},
                          {"seconds_lost", 0.0},
                          {"time", 100.0}});
  const double seconds = starts[1].at("seconds_lost").get<double>();
  CHECK(seconds >= 4 + 4.5 + 5);  // of steps 8, 9, 10
  CHECK(seconds < 1000);
  CHECK(starts[1] == json{{"step", 7},
                          {"from", "a checkpoint"},
                          {"ranks", 1},
                          {"hosts", {"pi1"}},
                          {"steps_lost", 3},
                          {"seconds_lost", seconds},
                          {"time", 200.0}});
  const std::string lines = text_of(path);
  CHECK(std::ranges::count(lines, '\n') == 2);
  CHECK(json::parse(lines.substr(lines.find('\n'))) == starts[1]);
  make_folder_sink(folder.path(), true);  // a new run has none of them
  CHECK_FALSE(fs::exists(path));
}

TEST_CASE("a run that goes on with other ranks has a further record", "[metrics]") {
  const TemporaryFolder folder;
  RunRecord run = run_record();
  for (const int ranks : {4, 4, 2, 2}) {
    run.ranks = ranks;
    const bool first = !fs::exists(folder.path() / "metrics.jsonl");
    const auto sink =
        make_folder_sink(folder.path(), true, first ? std::nullopt : std::optional<StepId>(5));
    sink->write(run);
    sink->write(step_record(5));
  }
  std::vector<int> ranks;
  for (const json& record : records_in(folder.path()))
    if (record.at("type") == "run") ranks.push_back(record.at("ranks"));
  CHECK(ranks == std::vector{4, 2});
}

TEST_CASE("a run that goes on loses what it has gone back behind", "[metrics]") {
  const TemporaryFolder folder;
  {
    const auto sink = make_folder_sink(folder.path(), true);
    sink->write(run_record());
    for (const StepId step : {1u, 2u, 3u, 4u}) sink->write(step_record(step));
    sink->write(NoteRecord{.step = 4, .text = "back", .back_to = 2});
    CHECK(records_in(folder.path()).back().at("back_to") == 2);
    sink->write(step_record(3));
  }
  make_folder_sink(folder.path(), true, 3);
  std::vector<int> steps;
  for (const json& record : records_in(folder.path()))
    if (record.at("type") == "step") steps.push_back(record.at("step"));
  CHECK(steps == std::vector{1, 2, 3});
}

TEST_CASE("an epoch that will be evaluated again is recorded again", "[metrics]") {
  const TemporaryFolder folder;
  EpochRecord epoch = epoch_record();
  {
    const auto sink = make_folder_sink(folder.path(), true);
    sink->write(run_record());
    sink->write(epoch);
  }
  make_folder_sink(folder.path(), true, epoch.step);
  CHECK(records_in(folder.path()).size() == 2);
  make_folder_sink(folder.path(), true, epoch.step, true);
  CHECK(records_in(folder.path()).size() == 1);
}

TEST_CASE("records that cannot be read are not replaced by fewer", "[metrics]") {
  if (::geteuid() == 0) return;  // root reads everything
  const TemporaryFolder folder;
  make_folder_sink(folder.path(), true)->write(run_record());
  fs::permissions(folder.path() / "metrics.jsonl", fs::perms::owner_write);
  CHECK(output_error([&] { make_folder_sink(folder.path(), true, 4); }).find("readable") !=
        std::string::npos);
  fs::permissions(folder.path() / "metrics.jsonl", fs::perms::owner_all);
  CHECK(records_in(folder.path()).size() == 1);
}

TEST_CASE("the run record says that messages were held or links shaped, if they were",
          "[metrics]") {
  const TemporaryFolder folder;
  const auto sink = make_folder_sink(folder.path(), true);
  RunRecord run = run_record();
  sink->write(run);
  run.emulated_link = "latency_ms=50";
  run.laboratory = "hosts=2 \"x\"";
  sink->write(run);
  const auto records = records_in(folder.path());
  REQUIRE(records.size() == 2);
  CHECK_FALSE(records[0].contains("emulated_link"));
  CHECK_FALSE(records[0].contains("laboratory"));
  CHECK(records[1].at("emulated_link") == "latency_ms=50");
  CHECK(records[1].at("laboratory") == "hosts=2 \"x\"");
}

TEST_CASE("the run record has what 8-bit operands use, if there are any", "[metrics]") {
  const TemporaryFolder folder;
  const auto sink = make_folder_sink(folder.path(), true);
  RunRecord run = run_record();
  sink->write(run);
  run.int8 = {.kernels = "neon-dot", .arena_bytes = 300, .saved_bytes = 200};
  sink->write(run);
  const auto records = records_in(folder.path());
  REQUIRE(records.size() == 2);
  CHECK_FALSE(records[0].contains("int8"));
  CHECK(records[1].at("int8") ==
        json{{"kernels", "neon-dot"}, {"arena_bytes", 300}, {"saved_bytes", 200}});

  Summary s = summary();
  sink->write(s);
  CHECK_FALSE(json::parse(text_of(folder.path() / "summary.json")).contains("clipped_values"));
  s.clipped_values = 0;
  sink->write(s);
  CHECK(json::parse(text_of(folder.path() / "summary.json")).at("clipped_values") == 0);
}

TEST_CASE("replicas that differ have their own figures, equal ones null", "[metrics]") {
  const TemporaryFolder folder;
  const auto sink = make_folder_sink(folder.path(), true);
  EpochRecord epoch = epoch_record();
  Summary s = summary();
  sink->write(epoch);
  make_replicas_differ(epoch);
  make_replicas_differ(s);
  sink->write(epoch);
  s.sent_bytes_by_edge = {{0, 1, 700}, {0, 2, 50}, {1, 0, 800}};
  s.ranks = 3;
  s.paper_sent_bytes_per_node = 640;
  sink->write(s);
  const auto records = records_in(folder.path());
  REQUIRE(records.size() == 2);
  const json read = json::parse(text_of(folder.path() / "summary.json"));
  for (const char* key :
       {"node_test_accuracy", "node_test_accuracy_mean", "node_test_accuracy_min",
        "consensus_distance", "consensus_distance_relative", "evaluation_sent_bytes"}) {
    CHECK(records[0].at(key).is_null());
    CHECK(records[1].at(key) == read.at(key));
  }
  CHECK(read.at("node_test_accuracy") == json{0.5, 0.75, 0.25});
  CHECK(read.at("node_test_accuracy_mean") == 0.5);
  CHECK(read.at("node_test_accuracy_min") == 0.25);
  CHECK(read.at("consensus_distance") == 1.5);
  CHECK(read.at("consensus_distance_relative") == 0.125);
  CHECK(read.at("evaluation_sent_bytes") == 4096);
  CHECK(read.at("sent_bytes_by_edge").size() == 3);
  CHECK(read.at("sent_bytes_by_edge")[1] == json{{"from", 0}, {"to", 2}, {"bytes", 50}});
  CHECK(read.at("sent_bytes_by_node") == json{750, 800, 0});
  CHECK(read.at("paper_sent_bytes_per_node") == 640);
}

TEST_CASE("metrics of the task are members by their names", "[metrics]") {
  const TemporaryFolder folder;
  const auto sink = make_folder_sink(folder.path(), true);
  RunRecord run = run_record();
  run.task = "regression";
  run.metrics = regression_metrics();
  sink->write(run);
  EpochRecord epoch = epoch_record();
  epoch.test_accuracy.reset();
  epoch.metrics = regression_metrics();
  epoch.metrics[1].value = std::numeric_limits<double>::quiet_NaN();
  epoch.replicas.node_test_metric = {0.5, 0.125};
  sink->write(epoch);
  // Accuracies are where they have always been.
  EpochRecord classification = epoch_record();
  classification.metrics = {
      {.name = "accuracy", .title = "accuracy", .fraction = true, .value = 0.125},
      {.name = "top5", .title = "top-5", .fraction = true, .value = 0.9375}};
  sink->write(classification);
  Summary s = summary();
  s.test_accuracy.reset();
  s.best_test_accuracy.reset();
  s.metrics = regression_metrics();
  s.best_metric = 0.125;
  sink->write(s);
  const auto records = records_in(folder.path());
  REQUIRE(records.size() == 3);
  CHECK(records[0].at("task") == "regression");
  CHECK(records[0].at("metrics") == json::parse(R"([
      {"name": "mse", "title": "MSE", "higher_is_better": false, "fraction": false},
      {"name": "r2", "title": "R2", "higher_is_better": true, "fraction": false}])"));
  CHECK(records[1].at("test_accuracy").is_null());
  CHECK(records[1].at("test_mse") == 0.25);
  CHECK(records[1].at("test_r2").is_null());
  CHECK(records[1].at("node_test_mse") == json{0.5, 0.125});
  CHECK(records[1].at("node_test_mse_mean") == 0.3125);
  CHECK(records[1].at("node_test_mse_worst") == 0.5);
  CHECK(records[2].at("test_accuracy") == 0.875);
  CHECK(records[2].at("test_top5") == 0.9375);
  const json read = json::parse(text_of(folder.path() / "summary.json"));
  CHECK(read.at("test_accuracy").is_null());
  CHECK(read.at("best_test_accuracy").is_null());
  CHECK(read.at("test_mse") == 0.25);
  CHECK(read.at("test_r2") == 0.5);
  CHECK(read.at("best_test_mse") == 0.125);
}

TEST_CASE("step records are written only if requested", "[metrics]") {
  const TemporaryFolder folder;
  const auto sink = make_folder_sink(folder.path(), false);
  sink->write(step_record(1));
  sink->write(epoch_record());
  const auto records = records_in(folder.path());
  REQUIRE(records.size() == 1);
  CHECK(records[0].at("type") == "epoch");
}

TEST_CASE("summary.json is written last, atomically, with the documented keys", "[metrics]") {
  const TemporaryFolder folder;
  const fs::path path = folder.path() / "summary.json";
  const auto sink = make_folder_sink(folder.path(), true);
  sink->write(run_record());
  sink->write(epoch_record());
  CHECK_FALSE(fs::exists(path));
  sink->write(summary());
  const json s = json::parse(text_of(path));
  CHECK(keys_of(s) == std::set<std::string>{"name",
                                            "version",
                                            "ranks",
                                            "steps",
                                            "epochs",
                                            "parameters",
                                            "train_loss",
                                            "test_accuracy",
                                            "best_test_accuracy",
                                            "wall_seconds",
                                            "images_per_second",
                                            "epoch_seconds",
                                            "sent_bytes",
                                            "received_bytes",
                                            "dense_bytes",
                                            "other_sent_bytes",
                                            "estimated_sent_bytes",
                                            "compression_ratio",
                                            "bits_per_value",
                                            "quantization_variance",
                                            "mean_quantization_variance",
                                            "replicas_identical",
                                            "parameter_hash",
                                            "peak_rss_mib",
                                            "compressor",
                                            "collective",
                                            "algorithm",
                                            "node_test_accuracy",
                                            "node_test_accuracy_mean",
                                            "node_test_accuracy_min",
                                            "consensus_distance",
                                            "consensus_distance_relative",
                                            "evaluation_sent_bytes",
                                            "starts",
                                            "sent_bytes_by_edge",
                                            "sent_bytes_by_node",
                                            "paper_sent_bytes_per_node"});
  CHECK(keys_of(s.at("epoch_seconds")) == kPhaseKeys);
  CHECK(s.at("steps") == 250);
  CHECK(s.at("epochs") == 3);
  CHECK(s.at("best_test_accuracy") == 0.9);
  CHECK(s.at("received_bytes") == 12300001);
  CHECK(s.at("dense_bytes") == 98400000);
  CHECK(s.at("replicas_identical") == true);
  CHECK(s.at("parameter_hash") == "0123456789abcdef");
  CHECK(s.at("collective") == "scatter-reduce");
  for (const char* key : {"sent_bytes_by_edge", "sent_bytes_by_node", "paper_sent_bytes_per_node"})
    CHECK(s.at(key).is_null());
  std::set<std::string> files;
  for (const auto& entry : fs::directory_iterator(folder.path()))
    files.insert(entry.path().filename().string());
  CHECK(files == std::set<std::string>{"metrics.jsonl", "summary.json"});
}

TEST_CASE("absent figures and those that are not finite are null", "[metrics]") {
  const TemporaryFolder folder;
  const auto sink = make_folder_sink(folder.path(), true);
  StepRecord step = step_record(1);
  step.loss = std::numeric_limits<double>::quiet_NaN();
  step.seconds.total = std::numeric_limits<double>::infinity();
  sink->write(step);
  EpochRecord epoch = epoch_record();
  epoch.test_accuracy.reset();
  epoch.test_loss = -std::numeric_limits<double>::infinity();
  epoch.quantization_variance.reset();
  sink->write(epoch);
  Summary s = summary();
  s.replicas_identical.reset();
  s.compression_ratio = std::nan("");
  sink->write(s);

  const auto records = records_in(folder.path());
  CHECK(records.at(0).at("loss").is_null());
  CHECK(records.at(0).at("seconds").at("total").is_null());
  CHECK(records.at(1).at("test_accuracy").is_null());
  CHECK(records.at(1).at("test_loss").is_null());
  CHECK(records.at(1).at("quantization_variance").is_null());
  const json read = json::parse(text_of(folder.path() / "summary.json"));
  CHECK(read.at("replicas_identical").is_null());
  CHECK(read.at("compression_ratio").is_null());
}

TEST_CASE("text of any bytes gives one valid line", "[metrics]") {
  const TemporaryFolder folder;
  const auto sink = make_folder_sink(folder.path(), true);
  RunRecord run = run_record();
  run.host = "line\nbreak \xFF \x1b[31m";
  run.config_json = "not json";
  sink->write(run);
  const auto records = records_in(folder.path());
  REQUIRE(records.size() == 1);
  CHECK(records[0].at("config").is_null());
  CHECK(text_of(folder.path() / "metrics.jsonl").find('\x1b') == std::string::npos);
}

TEST_CASE("a new run begins without the results of an earlier one", "[metrics]") {
  const TemporaryFolder folder;
  CHECK_FALSE(fs::exists(folder.path() / "metrics.jsonl"));
  CHECK_FALSE(fs::exists(folder.path() / "summary.json"));
  {
    const auto sink = make_folder_sink(folder.path(), true);
    sink->write(step_record(1));
    sink->write(summary());
  }
  CHECK(fs::exists(folder.path() / "metrics.jsonl"));
  CHECK(fs::exists(folder.path() / "summary.json"));
  const auto sink = make_folder_sink(folder.path(), true);
  CHECK(records_in(folder.path()).empty());
  CHECK_FALSE(fs::exists(folder.path() / "summary.json"));
}

TEST_CASE("a run folder that cannot be made is an output error", "[metrics]") {
  const TemporaryFolder folder;
  const std::string file = folder.path() / "file";
  std::ofstream(file) << "x";
  CHECK_THAT(output_error([&] { make_folder_sink(file + "/run", true); }),
             Catch::Matchers::ContainsSubstring(file));
  fs::create_directory(folder.path() / "metrics.jsonl");
  CHECK_THAT(output_error([&] { make_folder_sink(folder.path(), true); }),
             Catch::Matchers::ContainsSubstring("metrics.jsonl"));
}

TEST_CASE("records are not written to a pipe, which may have no reader", "[metrics]") {
  const TemporaryFolder folder;
  const std::string path = folder.path() / "metrics.jsonl";
  REQUIRE(mkfifo(path.c_str(), 0600) == 0);
  const char* const expected = "metrics.jsonl: expected a regular file or nothing, found a pipe";
  CHECK_THAT(output_error([&] { make_folder_sink(folder.path(), true); }),
             Catch::Matchers::ContainsSubstring(expected));
  CHECK_THAT(output_error([&] { make_folder_sink(folder.path(), true, 3); }),
             Catch::Matchers::ContainsSubstring(expected));
  const int reader = ::open(path.c_str(), O_RDONLY | O_NONBLOCK);
  REQUIRE(reader >= 0);
  CHECK_THAT(output_error([&] { make_folder_sink(folder.path(), true); }),
             Catch::Matchers::ContainsSubstring(expected));
  ::close(reader);
  fs::remove(path);
  fs::create_symlink("/dev/zero", path);  // which would be read for ever
  CHECK_THAT(
      output_error([&] { make_folder_sink(folder.path(), true, 3); }),
      Catch::Matchers::ContainsSubstring("metrics.jsonl: expected a regular file or nothing"));
}

TEST_CASE("a full disk is an output error", "[metrics]") {
  if (!fs::exists("/dev/full")) {
    WARN("[eqt-skip] this system has no /dev/full");
    return;
  }
  OutputFile file("/dev/full");
  CHECK_THAT(output_error([&] { file.write("a record"); }),
             Catch::Matchers::ContainsSubstring("cannot write to /dev/full"));
}

TEST_CASE("a failed summary leaves no incomplete file", "[metrics]") {
  const TemporaryFolder folder;
  const auto sink = make_folder_sink(folder.path(), true);
  const fs::path path = folder.path() / "summary.json";
  fs::create_directory(path);
  CHECK_THAT(output_error([&] { sink->write(summary()); }),
             Catch::Matchers::ContainsSubstring("summary.json"));
  CHECK(fs::is_directory(path));
  CHECK(entries_of(folder.path()).size() == 2);  // and the records
}

TEST_CASE("an atomic write replaces the whole file or does not change it", "[metrics]") {
  const TemporaryFolder folder;
  const std::string path = folder.path() / "a";
  write_atomically(path, "first, and longer");
  CHECK(text_of(path) == "first, and longer");
  write_atomically(path, "second");
  CHECK(text_of(path) == "second");
  write_atomically(path, "");
  CHECK(text_of(path).empty());
  fs::permissions(path, fs::perms::owner_read | fs::perms::owner_write);
  write_atomically(path, "third");
  CHECK(fs::status(path).permissions() == (fs::perms::owner_read | fs::perms::owner_write));
  {
    AtomicFile file(path);
    file.write("four");
    CHECK(text_of(path) == "third");
  }
  CHECK(text_of(path) == "third");
  CHECK(entries_of(folder.path()).size() == 1);
}

TEST_CASE("an atomic write meets no other file, also among many", "[metrics]") {
  const TemporaryFolder folder;
  const std::string path = folder.path() / "a", theirs = fmt::format("{}.tmp{}-0", path, getpid());
  for (const std::string& other : {path + ".tmp", theirs}) std::ofstream(other) << "theirs";
  std::vector<std::thread> threads;
  for (char c = 'a'; c < 'e'; ++c)
    threads.emplace_back([&path, text = std::string(100'000, c)] {
      for (int i = 0; i < 20; ++i) write_atomically(path, text);
    });
  for (std::thread& thread : threads) thread.join();
  const std::string found = text_of(path);
  CHECK(found == std::string(100'000, found.at(0)));
  CHECK(text_of(path + ".tmp") == "theirs");
  CHECK(text_of(theirs) == "theirs");
  CHECK(entries_of(folder.path()).size() == 3);
  CHECK(is_left_of("a.tmp12-0", "a"));
  for (const char* other : {"a", "a.tmp", "a.tmpx", "b.tmp12-0", "a.tmp12-0.txt"})
    CHECK_FALSE(is_left_of(other, "a"));
}

TEST_CASE("an atomic write replaces only regular files", "[metrics]") {
  const TemporaryFolder folder;
  const std::string path = folder.path() / "a", target = folder.path() / "target";
  std::ofstream(target) << "theirs";
  const auto refused = [](const std::string& name, const std::string& what) {
    CHECK_THAT(output_error([&] { write_atomically(name, "ours"); }),
               Catch::Matchers::ContainsSubstring(
                   name + ": expected a regular file or nothing, found " + what));
  };
  fs::create_symlink(target, path);
  refused(path, "a symbolic link");
  CHECK(fs::is_symlink(path));
  CHECK(text_of(target) == "theirs");
  fs::remove(path);
  REQUIRE(mkfifo(path.c_str(), 0600) == 0);
  refused(path, "a pipe or a socket");
  CHECK(fs::is_fifo(path));
  refused(folder.path(), "a folder");
  refused("/dev/null", "a device");
  CHECK(entries_of(folder.path()).size() == 2);
}

TEST_CASE("nothing is written through a symbolic link", "[metrics]") {
  const TemporaryFolder folder;
  const fs::path target = folder.path() / "theirs";
  std::ofstream(target) << "theirs";
  const auto link = [&](const char* name) {
    fs::remove(folder.path() / name);
    fs::create_symlink(target, folder.path() / name);
    return (folder.path() / name).string();
  };
  for (const auto begin : {OutputFile::Begin::empty, OutputFile::Begin::at_end})
    CHECK_FALSE(output_error([&] { OutputFile(link("a"), begin); }).empty());
  CHECK_THAT(output_error([&] { OutputFile{link("a")}; }),
             Catch::Matchers::ContainsSubstring("found a symbolic link"));
  CHECK(text_of(target) == "theirs");
}

TEST_CASE("records in a file that was moved away are an error", "[metrics]") {
  const TemporaryFolder folder;
  const fs::path run = folder.path() / "run", path = run / "metrics.jsonl";
  for (const std::string what : {"removed", "moved", "replaced", "folder"}) {
    fs::remove_all(run);
    const auto sink = make_folder_sink(run, true);
    sink->write(run_record());
    if (what == "removed") fs::remove(path);
    if (what == "moved") fs::rename(path, folder.path() / "moved");
    if (what == "replaced") {
      fs::rename(path, folder.path() / "moved");
      std::ofstream(path) << "another";
    }
    if (what == "folder") fs::remove_all(run);
    CHECK_THAT(output_error([&] { sink->write(epoch_record()); }),
               Catch::Matchers::ContainsSubstring(
                   "metrics.jsonl: expected the file that the run writes to"));
    output_error([&] { sink->write(summary()); });
    CHECK_FALSE(fs::exists(run / "summary.json"));
  }
}

TEST_CASE("the contents of a folder are listed, or there is an error", "[metrics]") {
  const TemporaryFolder folder;
  CHECK(entries_of(folder.path()).empty());
  CHECK(entries_of(folder.path() / "nothing").empty());
  CHECK_FALSE(is_there(folder.path() / "nothing"));
  fs::create_symlink("loop", folder.path() / "loop");
  CHECK(entries_of(folder.path()).size() == 1);
  CHECK(is_there(folder.path() / "loop"));
  output_error([&] { entries_of(folder.path() / "loop"); });
  output_error([&] { is_there(folder.path() / "loop" / "below"); });
}

TEST_CASE("a fan-out passes every record to every sink", "[metrics]") {
  const TemporaryFolder a, b;
  std::vector<std::unique_ptr<Sink>> sinks;
  sinks.push_back(make_folder_sink(a.path(), true));
  sinks.push_back(make_folder_sink(b.path(), false));
  const auto all = make_fan_out(std::move(sinks));
  all->write(run_record());
  all->write(step_record(1));
  all->write(epoch_record());
  all->write(summary());
  CHECK(records_in(a.path()).size() == 3);
  CHECK(records_in(b.path()).size() == 2);
  CHECK(text_of(a.path() / "summary.json") == text_of(b.path() / "summary.json"));
}

TEST_CASE("every record of an emulated or simulated run is marked, no other is", "[metrics]") {
  for (const std::string what : {"emulated", "simulated", "none"}) {
    const TemporaryFolder folder;
    const auto sink = make_folder_sink(folder.path(), true);
    RunRecord run = run_record();
    run.emulated = what == "emulated";
    run.simulated = what == "simulated";
    sink->write(run);
    sink->write(step_record(1));
    sink->write(NoteRecord{.step = 1, .text = "a"});
    sink->write(epoch_record());
    sink->write(summary());
    auto records = records_in(folder.path());
    REQUIRE(records.size() == 4);
    std::ifstream file(folder.path() / "summary.json");
    records.push_back(json::parse(file));
    for (const json& record : records) {
      CHECK(record.contains("emulated") == run.emulated);
      CHECK(record.contains("simulated") == run.simulated);
      if (what != "none") CHECK(record.at(what) == true);
    }
  }
}

TEST_CASE("a write past the cache writes the same bytes", "[metrics]") {
  const TemporaryFolder folder;
  const std::string path = folder.path() / "a";
  constexpr std::size_t kMost = (std::size_t{3} << 20) + 8191;
  const eqt::LongArray<char> memory = eqt::make_long_array<char>(kMost + 1);
  for (std::size_t i = 0; i <= kMost; ++i) memory[i] = static_cast<char>(i * i % 251);
  for (const std::size_t size : {std::size_t{0}, std::size_t{1}, std::size_t{4095},
                                 std::size_t{4096}, std::size_t{4097}, kMost}) {
    for (const std::size_t from : {0u, 1u}) {  // at a page of memory, and not
      const std::string_view bytes(memory.get() + from, size);
      AtomicFile file(path);
      file.write_past_cache(bytes);
      file.publish();
      CHECK(text_of(path) == bytes);
    }
  }
  output_error([&] { OutputFile("/dev/full").write_past_cache({memory.get(), kMost}); });
}
