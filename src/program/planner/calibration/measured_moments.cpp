// SPDX-License-Identifier: Apache-2.0
#include "planner/calibration/measured_moments.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace eqt::planner {
namespace {

bool are_of(const Profile& profile, const Layout& layout) {
  return std::equal(
      profile.slices.rbegin(), profile.slices.rend(), layout.begin(), layout.end(),
      [](const auto& slice, const auto& tensor) { return slice.name == tensor.name; });
}

}  // namespace

const RunTimes* nearest_run(const Calibration& calibration, const config::RunConfig& config,
                            bool profiled) {
  const RunTimes* best = nullptr;
  const auto distance = [&](const RunTimes& run) {
    return std::abs(std::log(static_cast<double>(run.batch_size) /
                             static_cast<double>(config.train.batch_size)));
  };
  for (const RunTimes& run : calibration.runs) {
    if (run.model != config.model.name->name || run.precision != name_of(config.model.precision) ||
        run.dataset != config.data.name->name || (profiled && !run.profile))
      continue;
    if (best == nullptr || distance(run) < distance(*best)) best = &run;
  }
  return best;
}

std::string take_moments(PlannedNetwork& network, const Calibration& calibration,
                         const config::RunConfig& config, std::vector<std::string>& guessed) {
  if (config.train.is_emulated()) return "";
  const RunTimes* const run = nearest_run(calibration, config, true);
  if (run == nullptr || !are_of(*run->profile, network.layout)) {
    guessed.emplace_back(kReadyMoments);
    if (run == nullptr) return "";
    return fmt::format("{} are not those of the run {}, which has other tensors than this {}",
                       kReadyMoments, run->run, run->model);
  }
  const Profile& profile = *run->profile;
  const double all = profile.forward + profile.backward;
  network.forward = profile.forward / all;
  const std::size_t count = network.layout.size();
  for (std::size_t i = 0; i < count; ++i)
    network.ready[i] = std::min(1.0, profile.slices[count - 1 - i].ready / all);
  return fmt::format("{}: of the run {} on {}", kReadyMoments, run->run, run->host);
}

}  // namespace eqt::planner
