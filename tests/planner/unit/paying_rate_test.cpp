// SPDX-License-Identifier: Apache-2.0
// Rates of links from which on more boards pay, beside formulas.

#include <cmath>

#include "planner/cluster_file.hpp"
#include "planner/machine_costs.hpp"
#include "planner/planned_run.hpp"

#include "support/catch.hpp"

namespace eqt::planner {
namespace {

// Nothing takes time but computing, which is emulated, and the bytes of 11,689,512 float32 values.
constexpr double kParameters = 11'689'512;
const char* const kConfig =
    R"({"model": {"name": "resnet18"}, "data": {"name": "cifar10"},
        "train": {"emulate_compute": 1, "steps": 1}, "synchronization": {"overlap": false}})";

const char* const kCodec =
    R"({"compressor": "none", "bits": null, "encode_gb_s": 1e6, "decode_add_gb_s": 1e6})";

class Planning {
 public:
  /// @param handling seconds that a core needs for a byte that it sends or receives
  Planning(int boards, double step_seconds, double handling = 0)
      : codecs_(parse_codec_lines(kCodec, "test"), "test"), handling_(handling) {
    file_.cluster.links = {{.name = "lan", .bytes_per_second = 1e6}};
    file_.cluster.boards = {{.name = "board",
                             .count = boards,
                             .step_seconds = step_seconds,
                             .update_seconds = 0,
                             .speed = {}}};
    file_.facts.resize(1);
  }

  double pays_from(const std::vector<std::string>& sets) {
    const Scheme scheme = schemes_of(kConfig, "test", sets, {"compressor.name=none"}, false)[0];
    const PlannedNetwork network = network_of(scheme.config, {});
    const Subject subject = {
        .network = network,
        .codecs = codecs_,
        .machine = {.communication = {.add = 0, .message = 0, .byte = handling_}, .update = 0},
        .samples = {}};
    const PlannedRun alone = plan_one_board(scheme, file_, subject);
    return paying_megabits(plan_run(scheme, file_, subject), alone, scheme, file_, subject);
  }

  ClusterFile& file() { return file_; }

 private:
  ClusterFile file_;
  CodecSpeeds codecs_;
  double handling_;
};

/// Megabits a second of Ethernet with which float32 of a network is sent so many times in so many
/// seconds; 1448 bytes of data need 1514.
double megabits(double times, double seconds) {
  return times * 4 * kParameters / seconds * 1514 / 1448 * 8 / 1e6;
}

}  // namespace

TEST_CASE("more boards pay where n of them take less than n steps of one", "[planner]") {
  // Of n boards each sends 2 (n - 1) / n times the gradient. n t / (t + w) = 1.01 with w = (n /
  // 1.01 - 1) t.
  for (const auto& [boards, seconds] : {std::pair(2, 1.0), std::pair(4, 1.0), std::pair(8, 0.25)}) {
    const double waiting = (boards / 1.01 - 1) * seconds;
    CHECK(Planning(boards, seconds).pays_from({}) ==
          Approx(megabits(2.0 * (boards - 1) / boards, waiting)).epsilon(0.02));
  }
  // Local SGD sends that once in H = 8 steps.
  CHECK(Planning(4, 1).pays_from(
            {"synchronization.algorithm=local-sgd", "synchronization.local_steps=8"}) ==
        Approx(megabits(1.5, (4 / 1.01 - 1) * 8)).epsilon(0.02));
}

TEST_CASE("links of no rate and of every rate pay", "[planner]") {
  // Two ranks send each other 47 MB, of which a core handles a megabyte a second.
  CHECK(std::isinf(Planning(2, 1, 1e-6).pays_from({})));
  // A millionth of 1 MB/s sends 70 MB in 7e7 s, as long as a step takes.
  CHECK(Planning(4, 7e7).pays_from({}) == 0);
}

TEST_CASE("what steps vary is part of what more boards take", "[planner]") {
  Planning steady(4, 1), varying(4, 1);
  varying.file().cluster.boards[0].speed = {.cv = 0.3, .changes = {}};
  // The longest of four lognormal times of mean 1 is 1.323 on average: s^2 = ln(1 + 0.3^2), and the
  // greatest of four normal values has mean 1.029 and variance 0.49. So 4 / 1.01 - 1.323 s are left
  // to wait, in place of 4 / 1.01 - 1.
  CHECK(varying.pays_from({}) / steady.pays_from({}) ==
        Approx((4 / 1.01 - 1) / (4 / 1.01 - 1.323)).epsilon(0.03));
}

}  // namespace eqt::planner
