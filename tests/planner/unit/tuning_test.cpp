// SPDX-License-Identifier: Apache-2.0
// Steps to an accuracy from a probe, and what batch, local steps and rate make of them.

#include "planner/tuning.hpp"

#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>

#include "support/catch.hpp"
#include "support/temporary_folder.hpp"

namespace eqt::planner {
namespace {

using Catch::Matchers::ContainsSubstring;

/// 1 - error after some steps of error = asymptote + factor / sqrt(steps).
std::vector<ProbedAccuracy> curve(double asymptote, double factor,
                                  const std::vector<double>& steps) {
  std::vector<ProbedAccuracy> all;
  for (const double step : steps)
    all.push_back({.step = step, .accuracy = 1 - asymptote - factor / std::sqrt(step)});
  return all;
}

}  // namespace

TEST_CASE("an accuracy that the probe reached lies between two evaluations", "[planner]") {
  const std::vector<ProbedAccuracy> all = {{100, 0.5}, {200, 0.7}, {300, 0.65}, {400, 0.8}};
  CHECK(steps_to_accuracy(all, 0.6, "probe").steps == Approx(150));
  CHECK(steps_to_accuracy(all, 0.7, "probe").steps == Approx(200));
  const StepsToAccuracy later = steps_to_accuracy(all, 0.75, "probe");
  CHECK(later.steps == Approx(300 + 100 * 0.1 / 0.15));
  CHECK_FALSE(later.fitted);
  CHECK_FALSE(later.at_most);
  const StepsToAccuracy first = steps_to_accuracy(all, 0.4, "probe");
  CHECK(first.steps == 100);
  CHECK(first.at_most);
}

TEST_CASE("beyond its evaluations a probe is extrapolated, not far", "[planner]") {
  // Errors 0.18, 0.14 and 0.12; 0.11 needs (0.8 / 0.01)^2 = 6400 steps, four times as many.
  const auto all = curve(0.1, 0.8, {100, 400, 1600});
  const StepsToAccuracy found = steps_to_accuracy(all, 1 - 0.115, "probe");
  CHECK(found.fitted);
  CHECK(found.steps == Approx(0.64 / (0.015 * 0.015)).epsilon(0.01));
  CHECK(found.asymptote == Approx(0.1).epsilon(0.005));
  CHECK(found.factor == Approx(0.02).epsilon(0.03));
  CHECK(found.power == Approx(0.5).epsilon(0.02));
  CHECK_THROWS_WITH(steps_to_accuracy(all, 1 - 0.1095, "probe"),
                    ContainsSubstring("more than 4 times"));
  CHECK_THROWS_WITH(
      steps_to_accuracy(all, 0.91, "the run"),
      ContainsSubstring("the run: expected a probe") && ContainsSubstring("approach 0.9 by"));
  CHECK_THROWS_WITH(steps_to_accuracy(std::span(all).first(2), 0.9, "probe"),
                    ContainsSubstring("at least 3 evaluations"));
  const std::vector<ProbedAccuracy> falling = {{100, 0.5}, {200, 0.4}, {300, 0.3}};
  CHECK_THROWS_WITH(steps_to_accuracy(falling, 0.9, "probe"),
                    ContainsSubstring("whose accuracy rises"));
}

TEST_CASE("an asymptote below 0 is 0", "[planner]") {
  // Errors 0.5, 0.25 and 0.125: half at twice the steps, without an asymptote.
  const std::vector<ProbedAccuracy> all = {{100, 0.5}, {200, 0.75}, {400, 0.875}};
  const StepsToAccuracy found = steps_to_accuracy(all, 0.9375, "probe");
  CHECK(found.asymptote == Approx(0).margin(0.002));
  CHECK(found.steps == Approx(800).epsilon(0.02));
}

TEST_CASE("noise of the steps up to the target", "[planner]") {
  constexpr double kHidden = std::numeric_limits<double>::infinity();
  // 10 steps of 100, 30 of 300, the other 60 of 200.
  const std::vector<ProbedNoise> noise = {{.step = 10, .scale = 100, .share = 1},
                                          {.step = 40, .scale = 300},
                                          {.step = 50, .scale = 200}};
  const ProbedNoise all = noise_until(noise, 100, "probe");
  CHECK(all.scale == 200);
  CHECK(all.share == Approx(0.1));
  CHECK(noise_until(noise, 40, "probe").scale == 300);
  CHECK(noise_until(noise, 15, "probe").scale == 100);
  CHECK(noise_until(noise, 5, "probe").share == 1);
  // Hidden gradients are noisier than all others.
  std::vector<ProbedNoise> hidden = noise;
  hidden[1].scale = kHidden;
  CHECK(noise_until(hidden, 100, "probe").scale == 200);
  CHECK_THROWS_WITH(noise_until(hidden, 40, "probe"), ContainsSubstring("the noise hides them"));
}

TEST_CASE("steps of rounds", "[planner]") {
  // X / B = 4: 100 (1 + 4) steps; of rounds of 4 steps 100 (1 + 1), each of them 4.
  CHECK(steps_of_rounds(100, {.samples = 64, .noise_scale = 256}) == Approx(500));
  CHECK(steps_of_rounds(100, {.samples = 64, .local_steps = 4, .noise_scale = 256}) == Approx(800));
  CHECK(steps_of_rounds(100, {.samples = 64, .noise_scale = 256, .added_noise = 0.5}) ==
        Approx(700));
}

TEST_CASE("rates of other batches and local steps", "[planner]") {
  const RoundOfSteps probe = {.samples = 64, .noise_scale = 192};  // H + X / B = 4
  CHECK(rate_for(probe, 0.1, probe, false) == Approx(0.1));
  const RoundOfSteps larger = {.samples = 192, .noise_scale = 192};  // 2
  CHECK(rate_for(larger, 0.1, probe, false) == Approx(0.2));
  CHECK(rate_for(larger, 0.1, probe, true) == Approx(0.1 * std::sqrt(2.0)));
  const RoundOfSteps local = {.samples = 64, .local_steps = 5, .noise_scale = 192};  // 8
  CHECK(rate_for(local, 0.1, probe, false) == Approx(0.05));
  // A step with all 5 * 64 samples has the rate of five such local steps: 1 + 192 / 320 = 1.6.
  const RoundOfSteps together = {.samples = 320, .noise_scale = 192};
  CHECK(rate_for(together, 0.1, probe, false) == Approx(5 * 0.05));
}

TEST_CASE("a probe is a run with evaluations and noise", "[planner]") {
  const test::TemporaryFolder folder;
  const std::string path = folder.path() + "/probe";
  std::filesystem::create_directory(path);
  const auto write = [&](const std::string& name, const std::string& text) {
    std::ofstream(path + "/" + name) << text;
  };
  const std::string run = R"({"type":"run","schema":1,"name":"probe","ranks":2})";
  const std::string epochs = R"({"type":"epoch","epoch":1,"step":10,"test_accuracy":0.5}
{"type":"epoch","epoch":2,"step":20,"test_accuracy":null}
)";
  const std::string noise = R"({"type":"noise","step":1,"noise_share":0.25,"noise_scale":64}
{"type":"noise","step":11,"noise_share":null,"noise_scale":0.0}
{"type":"noise","step":12,"noise_share":null,"noise_scale":null}
{"type":"noise","step":11,"noise_share":null,"noise_scale":32}
)";
  write("config.json", R"({"train": {"batch_size": 16, "accumulate": 3}})");
  write("metrics.jsonl", run + "\n" + epochs + noise);
  const Probe probe = read_probe(path);
  CHECK(probe.samples == 96);
  REQUIRE(probe.accuracies.size() == 1);
  CHECK(probe.accuracies[0].accuracy == 0.5);
  REQUIRE(probe.noise.size() == 2);  // the run went back to step 10
  CHECK(probe.noise[0].scale == 64);
  CHECK(probe.noise[0].share == 0.25);
  CHECK(probe.noise[1].scale == 32);
  write("metrics.jsonl", run + "\n" + epochs);
  CHECK_THROWS_WITH(read_probe(path), ContainsSubstring("compressor.name=auto"));
  write("metrics.jsonl", run + "\n" + noise);
  CHECK_THROWS_WITH(read_probe(path), ContainsSubstring("records of test_accuracy"));
  write("metrics.jsonl", run + "\n" + epochs + noise);
  write("config.json", R"({"synchronization": {"algorithm": "local-sgd"}})");
  CHECK_THROWS_WITH(read_probe(path), ContainsSubstring("found \"local-sgd\""));
}

}  // namespace eqt::planner
