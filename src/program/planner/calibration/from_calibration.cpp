// SPDX-License-Identifier: Apache-2.0
#include "planner/calibration/from_calibration.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/error.hpp"

namespace eqt::planner {
namespace {

/// Returns what the run's ranks reached in matrix products; none: doctor was not asked on that host
/// with as many threads.
std::optional<double> flops_of(const RunTimes& run, const Calibration& calibration) {
  for (const MatmulSpeed& speed : calibration.matmul)
    if (speed.host == run.host && speed.threads == run.threads_per_rank) return speed.flops;
  return {};
}

/// Returns the time of a step of `run` with another batch: on the line through it and another run
/// of the same network and board, the one with the most different batch; in proportion to the
/// batch, if there is none, or if a larger batch was faster or a smaller one slower than that.
double seconds_with(const RunTimes& run, const Calibration& calibration, std::uint64_t batch_size) {
  const auto size = static_cast<double>(run.batch_size);
  const auto to = static_cast<double>(batch_size);
  const auto distance = [&](const RunTimes& other) {
    return std::abs(std::log(static_cast<double>(other.batch_size) / size));
  };
  const RunTimes* other = nullptr;
  for (const RunTimes& one : calibration.runs) {
    if (one.model != run.model || one.precision != run.precision || one.dataset != run.dataset ||
        one.host != run.host || one.threads_per_rank != run.threads_per_rank)
      continue;
    if (distance(one) > (other == nullptr ? 0 : distance(*other))) other = &one;
  }
  const double in_proportion = run.step_seconds * to / size;
  if (other == nullptr) return in_proportion;
  const double slope =
      (run.step_seconds - other->step_seconds) / (size - static_cast<double>(other->batch_size));
  const double constant = run.step_seconds - slope * size;
  return slope > 0 && constant > 0 ? constant + slope * to : in_proportion;
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
  boards.step_seconds = seconds_with(*run, calibration, config.train.batch_size) / speed;
  std::string scaled;
  if (run->batch_size != config.train.batch_size)
    scaled = fmt::format(", whose batches of {} are scaled to {}", run->batch_size,
                         config.train.batch_size);
  if (speed != 1)
    scaled += fmt::format(", for a board {:.3g} times as fast in matrix products", speed);
  return fmt::format("computing time of {}: {:.4g} s, of the run {} on {}{}", boards.name,
                     boards.step_seconds, run->run, run->host, scaled);
}

bool are_of(const Profile& profile, const Layout& layout) {
  return std::equal(
      profile.slices.rbegin(), profile.slices.rend(), layout.begin(), layout.end(),
      [](const auto& slice, const auto& tensor) { return slice.name == tensor.name; });
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
