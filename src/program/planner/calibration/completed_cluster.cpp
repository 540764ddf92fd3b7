// SPDX-License-Identifier: Apache-2.0
#include "planner/calibration/completed_cluster.hpp"

#include "core/error.hpp"
#include "planner/calibration/measured_moments.hpp"

namespace eqt::planner {

namespace {

/// Returns what the run's ranks reached in matrix products; none: doctor was not asked on that host
/// with as many threads.
std::optional<double> flops_of(const RunTimes& run, const Calibration& calibration) {
  for (const MatmulSpeed& speed : calibration.matmul)
    if (speed.host == run.host && speed.threads == run.threads_per_rank) return speed.flops;
  return {};
}

/// Sets the time of a board that has none, or one of given speed from a run whose board's is known.
/// @return a note; "": it stays as it is
std::string complete_computing(forecast::Boards& boards, BoardFacts& facts,
                               const std::string& place, const Calibration& calibration,
                               const config::RunConfig& config) {
  if (boards.step_seconds > 0) return "";
  const RunTimes* const run = nearest_run(calibration, config);
  if (run == nullptr) {
    if (facts.flops) return "";
    fail(Kind::usage,
         "{}: expected step_seconds or flops, or a calibration with a run of {} in {} on {}, found "
         "neither; train some steps on one such board and give the run to plan --calibrate",
         place, config.model.name->name, name_of(config.model.precision), config.data.name->name);
  }
  const std::optional<double> own = flops_of(*run, calibration);
  if (facts.flops && !own) return "";
  const double speed = facts.flops ? *facts.flops / *own : 1;
  facts.flops.reset();
  boards.step_seconds = run->step_seconds * static_cast<double>(config.train.batch_size) /
                        static_cast<double>(run->batch_size) / speed;
  std::string scaled;
  if (run->batch_size != config.train.batch_size)
    scaled = fmt::format(", whose batches of {} are scaled to {}", run->batch_size,
                         config.train.batch_size);
  if (speed != 1)
    scaled += fmt::format(", for a board {:.3g} times as fast in matrix products", speed);
  return fmt::format("computing time of {}: {:.4g} s, of the run {} on {}{}", boards.name,
                     boards.step_seconds, run->run, run->host, scaled);
}

}  // namespace

std::vector<std::string> complete(ClusterFile& file, const std::string& origin,
                                  const Calibration& calibration, const config::RunConfig& config) {
  std::vector<std::string> notes;
  for (std::size_t b = 0; b < file.facts.size(); ++b) {
    const std::string note =
        complete_computing(file.cluster.boards[b], file.facts[b],
                           fmt::format("{}: boards[{}]", origin, b), calibration, config);
    if (!note.empty()) notes.push_back(note);
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
