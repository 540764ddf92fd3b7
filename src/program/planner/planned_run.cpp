// SPDX-License-Identifier: Apache-2.0
#include "planner/planned_run.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "adaptation/gradient_noise.hpp"
#include "codec/compressor.hpp"
#include "collective/memory.hpp"
#include "setup/memory_estimate.hpp"

namespace eqt::planner {
namespace {

// Steps of a forecast whose steps vary, and of one whose steps are alike but for the first ones.
constexpr std::size_t kVaryingSteps = 200, kRounds = 4;

forecast::StepForecast forecast_of(const PlannedStep& step) {
  const auto every = static_cast<std::size_t>(step.work.every);
  // Graphs of gossip are used in turn, each equally often.
  const std::size_t graphs = std::max<std::size_t>(step.work.graphs.size(), 1);
  const std::size_t period = every * graphs;
  std::size_t steps = std::max((kRounds + graphs - 1) / graphs * period, 2 * kRounds);
  if (forecast::varies(step.cluster)) steps = std::max(steps, kVaryingSteps);
  steps = (steps + period - 1) / period * period;
  return forecast::simulate_steps(step.cluster, step.work, {.steps = steps});
}

/// Estimates memory beside activations, data and program.
setup::MemoryEstimate memory_of(const config::RunConfig& config, int ranks) {
  config::RunConfig emulated = config;
  emulated.train.emulate_compute = 1.0;
  setup::MemoryEstimate estimate = setup::estimate_memory(emulated, {}, ranks, 1);
  estimate.program = 0;
  return estimate;
}

/// A state is copied once for training, and written to memory beside it.
double save_seconds_of(const setup::MemoryEstimate& memory) {
  constexpr double kCopiedBytes = 1e9;  // a second: a guess for boards
  const std::uint64_t parameters = memory.model / 2;
  return static_cast<double>(parameters + memory.optimizer + memory.memories) / kCopiedBytes;
}

/// None where no board fails.
std::optional<PlannedRun::UnderFailures> under_failures(const ClusterFile& cluster,
                                                        double save_seconds) {
  Failures failures = cluster.failures;
  failures.boards = 0;
  failures.save_seconds = save_seconds;
  for (std::size_t b = 0; b < cluster.facts.size(); ++b) {
    const int count = cluster.cluster.boards[b].count;
    failures.boards += count;
    failures.per_second += count * cluster.facts[b].failures_per_second;
  }
  if (failures.per_second <= 0) return {};
  const double interval = interval_in_memory(failures);
  return PlannedRun::UnderFailures{.per_day = kDay * failures.per_second,
                                   .goodput = goodput_of(failures, interval),
                                   .interval = interval,
                                   .best_interval = best_interval_of(failures)};
}

/// Of T = f + W, with f the forward pass and W all that follows until the last mean is there, at
/// best max(f + b + u, W) remains: up to f of the waiting would be hidden.
std::optional<double> forward_overlap_of(const PlannedStep& step,
                                         const forecast::StepForecast& forecast) {
  if (step.work.after_update || step.work.buckets.empty()) return {};
  double left = 0;  // of the kind of boards that stays the slowest
  for (std::size_t b = 0; b < step.cluster.boards.size(); ++b) {
    const double forward = step.forward * step.cluster.boards[b].step_seconds;
    left = std::max(left, forecast.mean_seconds - std::min(forecast.boards[b].waiting, forward));
  }
  return forecast.mean_seconds / left - 1;
}

/// Seconds of a step that does not vary, if all rates are `factor` times as high.
double steady_seconds(PlannedStep step, double factor) {
  for (forecast::Link& link : step.cluster.links) link.bytes_per_second *= factor;
  for (forecast::Switch& s : step.cluster.switches) s.bytes_per_second *= factor;
  for (forecast::Boards& boards : step.cluster.boards) boards.speed.cv = 0;
  return forecast_of(step).mean_seconds;
}

/// Returns the greatest factor, within 1 %, for which this holds; 0: for none from a millionth on;
/// infinite: for all up to a thousand.
/// @pre it holds for all smaller factors than one for which it holds
template <typename Predicate>
double last_factor(const Predicate& holds) {
  double low = 1e-6, high = 1e3;
  if (holds(high)) return std::numeric_limits<double>::infinity();
  if (!holds(low)) return 0;
  while (high / low > 1.01) {
    const double middle = std::sqrt(low * high);
    (holds(middle) ? low : high) = middle;
  }
  return low;
}

}  // namespace

PlannedRun plan_run(const Scheme& scheme, const ClusterFile& cluster, const Subject& subject) {
  const PlannedStep step =
      plan_step(scheme.config, subject.network, cluster, subject.codecs, subject.machine);
  PlannedRun run = {.scheme = scheme.name,
                    .ranks = step.cluster.ranks(),
                    .collective = step.collective,
                    .forecast = forecast_of(step)};
  const double seconds = run.forecast.mean_seconds;
  run.forward_overlap = forward_overlap_of(step, run.forecast);
  const setup::MemoryEstimate memory = memory_of(scheme.config, run.ranks);
  run.memory_bytes =
      static_cast<double>(memory.total()) + static_cast<double>(subject.other_memory);
  run.under_failures = under_failures(cluster, save_seconds_of(memory));
  double watts = 0;
  for (std::size_t b = 0; b < step.cluster.boards.size(); ++b) {
    const forecast::Boards& boards = step.cluster.boards[b];
    const BoardFacts& facts = cluster.facts[b];
    const double computing = std::min(seconds, run.forecast.boards[b].computing);
    run.samples += step.batches[b] * static_cast<double>(scheme.config.train.accumulate) *
                   boards.count * boards.ranks;
    run.price += facts.price * boards.count;
    run.joules +=
        boards.count * (facts.busy_watts * computing + facts.idle_watts * (seconds - computing));
    watts += facts.busy_watts;
    if (facts.memory_bytes > 0 && run.memory_bytes * boards.ranks > facts.memory_bytes)
      run.too_small.push_back(boards.name);
  }
  if (watts > 0) run.joules += run.ranks * run.forecast.sent_bytes * cluster.joules_per_byte;
  if (subject.noise_scale > 0 && step.quantisation) {
    const auto& [variance, times] = *step.quantisation;
    run.noise = compression_noise(variance, times, run.ranks, run.samples, subject.noise_scale);
    run.target_steps =
        steps_to_target(subject.steps_at_1, *run.noise, run.samples, subject.noise_scale);
    run.target_seconds = *run.target_steps * seconds;
  }
  if (subject.samples) {
    run.steps_per_epoch =
        std::max(1.0, std::floor(static_cast<double>(*subject.samples) / run.samples));
    run.epoch_seconds = *run.steps_per_epoch * seconds;
    if (run.joules > 0) run.epoch_joules = *run.steps_per_epoch * run.joules;
  }
  return run;
}

PlannedRun plan_one_board(const Scheme& scheme, const ClusterFile& cluster,
                          const Subject& subject) {
  Scheme alone = {.name = {}, .config = scheme.config};
  alone.config.synchronization = {};
  alone.config.synchronization.algorithm = sync::kNone;
  alone.config.train.batch_sizes = {};
  std::optional<PlannedRun> fastest;
  for (std::size_t b = 0; b < cluster.cluster.boards.size(); ++b) {
    ClusterFile one = cluster;
    one.cluster.boards = {cluster.cluster.boards[b]};
    one.cluster.boards[0].count = 1;
    one.facts = {cluster.facts[b]};
    alone.name = fmt::format("one {} alone", one.cluster.boards[0].name);
    PlannedRun run = plan_run(alone, one, subject);
    if (!fastest || seconds_a_sample(run) < seconds_a_sample(*fastest)) fastest = std::move(run);
  }
  return *fastest;
}

std::vector<PlannedRun::FirstEpoch> first_epochs_of(const PlannedRun& run, const Scheme& scheme,
                                                    const ClusterFile& cluster,
                                                    const Subject& subject) {
  constexpr double kAlike = 0.95;
  const auto& keys = scheme.config.compressor;
  const auto& train = scheme.config.train;
  std::vector<PlannedRun::FirstEpoch> epochs;
  if (!keys.make()->properties().forgets_sent || cluster.cluster.ranks() == 1) return epochs;
  auto trained = static_cast<double>(train.epochs);
  if (train.steps > 0)  // an epoch of unknown length has at least one
    trained = std::ceil(static_cast<double>(train.steps) / run.steps_per_epoch.value_or(1));
  double planned = std::numeric_limits<double>::infinity();
  for (double at = 0; at < std::min(trained, keys.warmup_epochs); ++at) {
    const double density = collective::dgc_density(keys.density, keys.warmup_epochs, at);
    double seconds = epochs.empty() ? 0 : epochs.back().step_seconds;
    if (density < kAlike * planned) {
      Scheme denser = scheme;
      denser.config.compressor.density = planned = density;
      seconds = plan_run(denser, cluster, subject).forecast.mean_seconds;
    }
    epochs.push_back({.density = density, .step_seconds = seconds});
  }
  return epochs;
}

double slowest_megabits(const ClusterFile& cluster) {
  double slowest = std::numeric_limits<double>::infinity();
  for (const forecast::Boards& boards : cluster.cluster.boards)
    slowest = std::min(slowest, cluster.cluster.links[boards.link].bytes_per_second);
  return slowest / kGoodput * 8 / 1e6;
}

double break_even_megabits(const Scheme& scheme, const Scheme& other, const ClusterFile& cluster,
                           const Subject& subject) {
  const PlannedStep first =
      plan_step(scheme.config, subject.network, cluster, subject.codecs, subject.machine);
  const PlannedStep second =
      plan_step(other.config, subject.network, cluster, subject.codecs, subject.machine);
  return last_factor([&](double factor) {
           return steady_seconds(second, factor) > kGain * steady_seconds(first, factor);
         }) *
         slowest_megabits(cluster);
}

double paying_megabits(const PlannedRun& run, const PlannedRun& alone, const Scheme& scheme,
                       const ClusterFile& cluster, const Subject& subject) {
  const PlannedStep step =
      plan_step(scheme.config, subject.network, cluster, subject.codecs, subject.machine);
  const double varying = run.forecast.mean_seconds - steady_seconds(step, 1);
  return last_factor([&](double factor) {
           const double seconds = steady_seconds(step, factor) + varying;
           return seconds_a_sample(alone) < kGain * seconds / run.samples;
         }) *
         slowest_megabits(cluster);
}

double compression_noise(double variance, int quantisations, int ranks, double samples,
                         double noise_scale) {
  const double batch_noise = noise_scale / samples;
  const double square = 1 + ranks * batch_noise;
  return adaptation::added_noise({.square = square, .error = variance * square}, 1, batch_noise,
                                 ranks, quantisations) /
         batch_noise;
}

double steps_to_target(double steps_at_1, double noise, double samples, double noise_scale) {
  return steps_at_1 * (1 + (1 + noise) * noise_scale / samples);
}

}  // namespace eqt::planner
