// SPDX-License-Identifier: Apache-2.0
#include "planner/recommendation.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "planner/plans.hpp"
#include "setup/look_at_data.hpp"

namespace eqt::planner {
namespace {

constexpr const char* kConfig =
    R"({"model": {"name": "resnet18"}, "data": {"name": "cifar10"}, "train": {"batch_size": 64}})";
constexpr const char* kOrigin = "the config of the recommendation";

}  // namespace

Recommendation recommend(const ClusterFile& cluster, CodecSpeeds& codecs) {
  // In the order of what they lose.
  const std::vector<Scheme> schemes =
      schemes_of(kConfig, kOrigin, {}, {"compressor.name=none,bf16,e-elastiquant"}, false);
  const PlannedNetwork network =
      network_of(schemes[0].config,
                 schemes[0].config.data.name->look(setup::dataset_options(schemes[0].config)));
  const Subject subject = {.network = network, .codecs = codecs, .machine = {}, .samples = {}};
  std::vector<PlannedRun> runs;
  for (const Scheme& scheme : schemes) runs.push_back(plan_run(scheme, cluster, subject));
  const auto seconds = [](const PlannedRun& run) { return run.forecast.mean_seconds; };
  const double fastest = seconds(*std::ranges::min_element(runs, {}, seconds));
  const PlannedRun& best = *std::ranges::find_if(
      runs, [&](const PlannedRun& run) { return seconds(run) <= (1 + kTie) * fastest; });
  Recommendation result = {.compressor = best.scheme,
                           .collective = best.collective,
                           .step_seconds = seconds(best),
                           .float32_step_seconds = seconds(runs[0]),
                           .sentence = {}};
  result.sentence =
      &best == &runs[0]
          ? fmt::format(
                "On these links ResNet-18 with batches of 64 needs no compression: {:.3g} s "
                "a step by {} in float32, by forecast.",
                result.step_seconds, result.collective)
          : fmt::format(
                "On these links, for ResNet-18 with batches of 64: {} by {}, overlapped: "
                "{:.3g} s a step; float32 {:.3g} s, by forecast.",
                result.compressor, result.collective, result.step_seconds,
                result.float32_step_seconds);
  const PlannedRun alone = plan_one_board(schemes[0], cluster, subject);
  const double times = seconds_a_sample(alone) / seconds_a_sample(best);
  result.sentence += fmt::format(" That is {:.2f} times {}{}.", times, alone.scheme,
                                 times > 1 ? "" : ": more boards bring nothing here");
  return result;
}

}  // namespace eqt::planner
