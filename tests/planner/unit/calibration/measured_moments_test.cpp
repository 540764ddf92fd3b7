// SPDX-License-Identifier: Apache-2.0
// The moments at which gradients are ready come from a profile of the same network, or are guessed.

#include "planner/calibration/from_calibration.hpp"

#include "planner/unit/calibration/made_times.hpp"
#include "support/catch.hpp"

namespace eqt::planner {
namespace {

using Catch::Matchers::ContainsSubstring;

config::RunConfig config_of(const std::string& keys) {
  return config::parse_config(
      R"({"model": {"name": "resnet20"}, "data": {"name": "cifar10"})" + keys + "}", "c.json", {});
}

PlannedNetwork network() {
  return {.layout = {{.name = "conv1.weight", .shape = {4}, .offset = 0, .count = 4},
                     {.name = "fc.weight", .shape = {4}, .offset = 4, .count = 4}},
          .multiply_adds = {1, 1},
          .ready = {1, 0.75}};
}

RunTimes profiled(const char* name, std::uint64_t batch, double forward) {
  RunTimes times = test::made_times(name, batch, 1);
  times.profile = Profile{
      .forward = forward,
      .backward = 8 - forward,
      .slices = {{.name = "fc.weight", .ready = forward}, {.name = "conv1.weight", .ready = 6}}};
  return times;
}

}  // namespace

TEST_CASE("moments are parts of the measured passes", "[planner]") {
  Calibration calibration;
  calibration.runs = {profiled("far", 1, 1), profiled("near", 32, 2),
                      test::made_times("nearest", 64, 1)};
  PlannedNetwork planned = network();
  std::vector<std::string> guessed;
  const std::string note = take_moments(planned, calibration, config_of(""), guessed);
  CHECK_THAT(note, ContainsSubstring("run near on pi0"));
  CHECK(guessed.empty());
  CHECK(planned.forward == 0.25);
  CHECK(planned.ready == std::vector<double>{0.75, 0.25});
}

TEST_CASE("a profile of other tensors is not used, and that is said", "[planner]") {
  Calibration calibration;
  calibration.runs = {profiled("r", 32, 2)};
  for (const bool shorter : {false, true}) {
    auto& slices = calibration.runs[0].profile->slices;
    slices[1].name = "stem.weight";
    if (shorter) slices.pop_back();
    PlannedNetwork planned = network();
    std::vector<std::string> guessed;
    CHECK_THAT(take_moments(planned, calibration, config_of(""), guessed),
               ContainsSubstring("the run r") && ContainsSubstring("other tensors"));
    CHECK(guessed == std::vector<std::string>{kReadyMoments});
    CHECK(planned.ready == network().ready);
    CHECK(planned.forward == network().forward);
  }
}

TEST_CASE("without a profile of the network moments are guessed", "[planner]") {
  Calibration calibration;
  calibration.runs = {profiled("r", 32, 2)};
  PlannedNetwork planned = network();
  std::vector<std::string> guessed;
  CHECK(take_moments(planned, calibration,
                     config_of(R"(, "train": {"emulate_compute": 1, "steps": 9})"), guessed)
            .empty());
  CHECK(guessed.empty());  // emulated boards have no others
  calibration.runs[0].precision = "bf16";
  CHECK(take_moments(planned, calibration, config_of(""), guessed).empty());
  CHECK(take_moments(planned, {}, config_of(""), guessed).empty());
  CHECK(guessed.size() == 2);
  CHECK(planned.ready == network().ready);
}

}  // namespace eqt::planner
