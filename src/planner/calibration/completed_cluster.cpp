// SPDX-License-Identifier: Apache-2.0
#include "planner/calibration/completed_cluster.hpp"

#include <algorithm>
#include <cmath>

#include "core/error.hpp"

namespace eqt::planner {
namespace {

/// The run of this network whose batch is nearest; null: there is none.
const RunTimes* run_for(const Calibration& calibration, const config::RunConfig& config) {
  const RunTimes* best = nullptr;
  const auto distance = [&](const RunTimes& run) {
    return std::abs(std::log(static_cast<double>(run.batch_size) /
                             static_cast<double>(config.train.batch_size)));
  };
  for (const RunTimes& run : calibration.runs) {
    if (run.model != config.model.name->name || run.precision != name_of(config.model.precision) ||
        run.dataset != config.data.name->name)
      continue;
    if (best == nullptr || distance(run) < distance(*best)) best = &run;
  }
  return best;
}

}  // namespace

std::vector<std::string> complete(ClusterFile& file, const std::string& origin,
                                  const Calibration& calibration, const config::RunConfig& config) {
  std::vector<std::string> notes;
  for (std::size_t b = 0; b < file.facts.size(); ++b) {
    forecast::Boards& boards = file.cluster.boards[b];
    if (file.facts[b].flops || boards.step_seconds > 0) continue;
    const RunTimes* const run = run_for(calibration, config);
    if (run == nullptr)
      fail(Kind::usage,
           "{}: boards[{}]: expected step_seconds or flops, or a calibration with a run of {} in "
           "{} on {}, found neither; train some steps on one such board and give the run to plan "
           "--calibrate",
           origin, b, config.model.name->name, name_of(config.model.precision),
           config.data.name->name);
    const double batches =
        static_cast<double>(config.train.batch_size) / static_cast<double>(run->batch_size);
    boards.step_seconds = run->step_seconds * batches;
    std::string scaled;
    if (run->batch_size != config.train.batch_size)
      scaled = fmt::format(", whose batches of {} are scaled to {}", run->batch_size,
                           config.train.batch_size);
    notes.push_back(fmt::format("computing time of {}: {:.4g} s, of the run {} on {}{}",
                                boards.name, boards.step_seconds, run->run, run->host, scaled));
  }
  for (forecast::Link& link : file.cluster.links) {
    const bool has_rate = link.bytes_per_second > 0, has_latency = link.latency_seconds >= 0;
    if (has_rate && has_latency) continue;
    const auto& measured = calibration.between_hosts;
    if (!has_rate && !measured)
      fail(Kind::usage,
           "{}: links.{}: expected megabits, or a calibration with links between hosts, found "
           "neither; run doctor --json on two hosts and give what it prints to plan --calibrate",
           origin, link.name);
    if (!has_rate)
      link.bytes_per_second =
          link.shared ? 2 * measured->bytes_per_second : measured->duplex_bytes_per_second;
    if (!has_latency) link.latency_seconds = measured ? measured->latency_seconds : 0;
    if (measured)
      notes.push_back(fmt::format(
          "link {}: {} from doctor", link.name,
          !has_rate ? fmt::format("{:.4g} Mb/s of payload{}", link.bytes_per_second * 8 / 1e6,
                                  has_latency ? ""
                                              : fmt::format(" and {:.3g} ms latency",
                                                            link.latency_seconds * 1e3))
                    : fmt::format("{:.3g} ms latency", link.latency_seconds * 1e3)));
  }
  return notes;
}

}  // namespace eqt::planner
