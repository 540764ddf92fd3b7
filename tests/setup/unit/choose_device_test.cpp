// SPDX-License-Identifier: Apache-2.0
// Which device a rank takes, and what is said where there is none.

#include "setup/build_model.hpp"

#include <string>
#include <vector>

#include "support/catch.hpp"
#include "support/refusal.hpp"

using namespace eqt;
using namespace eqt::setup;

namespace {

config::RunConfig on(config::Device device) {
  config::RunConfig config;
  config.device = device;
  return config;
}

/// Hosts of so many ranks, with so many devices each.
std::vector<RankDevices> hosts(const std::vector<std::pair<int, int>>& ranks_and_devices) {
  std::vector<RankDevices> all;
  for (const auto& [ranks, devices] : ranks_and_devices) {
    const auto first = static_cast<Rank>(all.size());
    for (int local = 0; local < ranks; ++local)
      all.push_back({.host = "h" + std::to_string(first),
                     .first = first,
                     .local = local,
                     .count = devices,
                     .obstacle = devices == 0 ? "no driver" : ""});
  }
  return all;
}

TEST_CASE("ranks of a host take its devices in turn", "[device]") {
  const auto ranks = hosts({{3, 2}, {2, 4}, {1, 1}});
  std::vector<int> taken;
  for (Rank rank = 0; rank < 6; ++rank) {
    const DeviceChoice choice = choose_device(on(config::Device::cuda), ranks, rank);
    CHECK(choice.placement.mirrored);
    CHECK(choice.placement.torch_layers);
    taken.push_back(choice.placement.cuda.value());
  }
  CHECK(taken == std::vector<int>{0, 1, 0, 0, 1, 0});
  // 2 + 2 + 1 devices, of which the first has two ranks.
  const std::string note = choose_device(on(config::Device::automatic), ranks, 0).note;
  test::says(note, "6 ranks on 5 NVIDIA devices");
  test::says(note, "up to 2 ranks share one");
  CHECK(choose_device(on(config::Device::cuda), hosts({{1, 1}}), 0).note ==
        "device cuda: 1 rank on 1 NVIDIA device");
}

TEST_CASE("one rank without a device refuses cuda and turns auto to the processors", "[device]") {
  const auto ranks = hosts({{2, 1}, {1, 0}});
  const std::string sentence =
      test::refusal(Kind::usage, [&] { choose_device(on(config::Device::cuda), ranks, 0); });
  test::says(sentence, "rank 2 on host h2: no driver");
  test::says(sentence, "\"cpu\"");
  const DeviceChoice automatic = choose_device(on(config::Device::automatic), ranks, 0);
  CHECK(automatic.placement == model::Placement{});
  test::says(automatic.note, "on the processors; rank 2 on host h2: no driver");
  CHECK(choose_device(on(config::Device::cpu), ranks, 0).placement == model::Placement{});
  CHECK(choose_device(on(config::Device::cpu), ranks, 0).note.empty());
}

TEST_CASE("auto leaves what only the processor computes there", "[device]") {
  config::RunConfig config = on(config::Device::automatic);
  config.model.precision = model::Precision::int8;
  const DeviceChoice choice = choose_device(config, hosts({{2, 2}}), 1);
  CHECK_FALSE(choice.placement.cuda.has_value());
  test::says(choice.note, "model.precision \"int8\"");
}

}  // namespace
