// SPDX-License-Identifier: Apache-2.0
// What a cluster file leaves out comes from a calibration, or is asked for.

#include "planner/calibration/from_calibration.hpp"

#include "core/error.hpp"
#include "planner/unit/calibration/made_times.hpp"
#include "support/catch.hpp"

namespace eqt::planner {
namespace {

using Catch::Matchers::ContainsSubstring;

const char* const kBare = R"({
  "boards": [{"name": "pi", "count": 2, "link": "lan"},
             {"name": "pc", "step_seconds": 0.1, "link": "wifi"}],
  "links": {"lan": {"kind": "duplex"}, "wifi": {"kind": "shared", "latency_ms": 5},
            "told": {"kind": "duplex", "megabits": 100}}
})";

config::RunConfig config_with(const std::string& model) {
  return config::parse_config(
      R"({"model": {"name": ")" + model +
          R"("}, "data": {"name": "cifar10"}, "train": {"batch_size": 48}})",
      "c.json", {});
}

Calibration measured() {
  Calibration calibration;
  calibration.runs = {test::made_times("far", 8, 1), test::made_times("near", 32, 0.5)};
  calibration.between_hosts = MeasuredLinks{
      .count = 2, .latency_seconds = 2e-3, .bytes_per_second = 3e6, .duplex_bytes_per_second = 2e6};
  return calibration;
}

}  // namespace

TEST_CASE("computing times come from the run with the nearest batch", "[planner]") {
  ClusterFile file = parse_cluster(kBare, "b.json");
  const auto notes = complete(file, "b.json", measured(), config_with("resnet20"));
  CHECK(file.cluster.boards[0].step_seconds == Approx(0.5 * 48 / 32));
  CHECK(file.cluster.boards[1].step_seconds == 0.1);
  REQUIRE(notes.size() == 4);
  CHECK_THAT(notes[0], ContainsSubstring("pi: 0.75 s") && ContainsSubstring("run near") &&
                           ContainsSubstring("32"));
}

TEST_CASE("two batches of a board tell what of a step does not depend on the batch", "[planner]") {
  Calibration calibration;
  const auto seconds = [&] {
    ClusterFile file = parse_cluster(
        R"({"boards": [{"name": "pi", "count": 2, "link": "lan"}],
            "links": {"lan": {"kind": "duplex", "megabits": 100, "latency_ms": 1}}})",
        "b.json");
    (void)complete(file, "b.json", calibration, config_with("resnet20"));
    return file.cluster.boards[0].step_seconds;
  };
  // 0.1 s and 0.0125 s a sample; the batch in between does not count.
  calibration.runs = {test::made_times("small", 8, 0.2), test::made_times("near", 32, 0.5),
                      test::made_times("middle", 16, 0.4)};
  CHECK(seconds() == Approx(0.1 + 48 * 0.0125));
  // Another board's run, and a line that would pass below 0, tell nothing.
  calibration.runs[0].host = calibration.runs[2].host = "pi1";
  CHECK(seconds() == Approx(0.5 * 48 / 32));
  calibration.runs = {test::made_times("small", 8, 0.1), test::made_times("near", 32, 0.5)};
  CHECK(seconds() == Approx(0.5 * 48 / 32));
}

TEST_CASE("boards of given speed take a run's time in proportion, if the run's speed is known",
          "[planner]") {
  const char* const text = R"({
    "boards": [{"name": "slow", "flops": 5e9, "link": "l"}, {"name": "told", "step_seconds": 0.1, "link": "l"}],
    "links": {"l": {"kind": "duplex", "megabits": 8, "latency_ms": 1}}})";
  Calibration calibration = measured();
  const auto completed = [&] {
    ClusterFile file = parse_cluster(text, "b.json");
    (void)complete(file, "b.json", calibration, config_with("resnet20"));
    return file;
  };
  // Others' speeds say nothing about the host of the run, nor does another number of threads.
  calibration.matmul = {{.host = "pi1", .threads = 4, .flops = 1e9},
                        {.host = "pi0", .threads = 1, .flops = 2e9}};
  CHECK(completed().facts[0].flops == 5e9);
  CHECK(completed().cluster.boards[0].step_seconds == 0);
  calibration.matmul.push_back({.host = "pi0", .threads = 4, .flops = 20e9});
  const ClusterFile file = completed();
  CHECK_FALSE(file.facts[0].flops);
  CHECK(file.cluster.boards[0].step_seconds == Approx(0.5 * 48 / 32 * 4));
  CHECK(file.cluster.boards[1].step_seconds == 0.1);
  ClusterFile again = parse_cluster(text, "b.json");
  const auto notes = complete(again, "b.json", calibration, config_with("resnet20"));
  REQUIRE(notes.size() == 1);
  CHECK_THAT(notes[0], ContainsSubstring("slow: 3 s") && ContainsSubstring("0.25 times as fast"));
  calibration.runs.clear();
  CHECK(completed().facts[0].flops == 5e9);
}

TEST_CASE("links have the measured rates and latencies", "[planner]") {
  ClusterFile file = parse_cluster(kBare, "b.json");
  (void)complete(file, "b.json", measured(), config_with("resnet20"));
  const auto& links = file.cluster.links;
  const auto link = [&](const char* name) {
    return *std::ranges::find(links, std::string(name), &forecast::Link::name);
  };
  CHECK(link("lan").bytes_per_second == 2e6);
  CHECK(link("lan").latency_seconds == 2e-3);
  CHECK(link("wifi").bytes_per_second == 6e6);  // of air, in which each byte passes twice
  CHECK(link("wifi").latency_seconds == 5e-3);
  CHECK(link("told").bytes_per_second == Approx(1e8 / 8 * kGoodput));
  CHECK(link("told").latency_seconds == 2e-3);
}

TEST_CASE("what neither file has is asked for", "[planner]") {
  ClusterFile file = parse_cluster(kBare, "b.json");
  CHECK_THROWS_WITH(
      complete(file, "b.json", {}, config_with("resnet20")),
      ContainsSubstring("b.json: boards[0]") && ContainsSubstring("step_seconds or flops"));
  CHECK_THROWS_WITH(complete(file, "b.json", measured(), config_with("resnet18")),
                    ContainsSubstring("a run of resnet18"));
  file = parse_cluster(kBare, "b.json");
  Calibration calibration = measured();
  calibration.between_hosts.reset();
  CHECK_THROWS_WITH(complete(file, "b.json", calibration, config_with("resnet20")),
                    ContainsSubstring("links.lan") && ContainsSubstring("megabits"));
}

TEST_CASE("a cluster that is complete needs no calibration", "[planner]") {
  ClusterFile file = parse_cluster(
      R"({"boards": [{"name": "a", "step_seconds": 1, "link": "l"}],
          "links": {"l": {"kind": "duplex", "megabits": 8}}})",
      "b.json");
  CHECK(complete(file, "b.json", {}, config_with("resnet20")).empty());
  CHECK(file.cluster.links[0].latency_seconds == 0);
}

}  // namespace eqt::planner
