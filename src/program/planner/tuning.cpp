// SPDX-License-Identifier: Apache-2.0
#include "planner/tuning.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <tuple>

#include "core/error.hpp"
#include "figures/rows.hpp"
#include "model/catalogue.hpp"
#include "planner/calibration/from_calibration.hpp"
#include "planner/plan.hpp"
#include "planner/planned_step.hpp"
#include "planner/plans.hpp"
#include "setup/memory_estimate.hpp"
#include "sync/algorithm.hpp"

namespace eqt::planner {
namespace {

using nlohmann::ordered_json;

/// Refuses a probe of something else.
void require_probe_of(const config::RunConfig& config, const Probe& probe) {
  const auto require_same = [&](const char* key, std::string_view own, std::string_view probed) {
    if (own == probed) return;
    fail(Kind::usage,
         "tuning: expected a probe with the config's {} \"{}\", found \"{}\" in {}; make a probe "
         "of this config",
         key, own, probed, probe.run);
  };
  require_same("model.name", config.model.name->name, probe.config.model.name->name);
  require_same("data.name", config.data.name->name, probe.config.data.name->name);
  require_same("optimizer.name", config.optimizer.name->name, probe.config.optimizer.name->name);
}

/// The config's batch times powers of two, as far as normalization and the data set allow.
std::vector<std::size_t> batches_for(const config::RunConfig& config, int ranks,
                                     std::optional<std::uint64_t> samples) {
  constexpr std::size_t kFactor = 2, kDown = 3, kUp = 4;
  const std::size_t own = config.train.batch_size;
  std::size_t least =
      config.model.normalization->groups == 0 ? std::min(own, kLeastNormalizedBatch) : 1;
  if (config.train.balances()) least = std::max(least, config.train.batch_least);
  std::vector<std::size_t> batches = {own};
  std::size_t batch = own;
  for (std::size_t i = 0; i < kDown && batch % kFactor == 0 && batch / kFactor >= least; ++i)
    batches.push_back(batch /= kFactor);
  batch = own;
  for (std::size_t i = 0; i < kUp; ++i) {
    batch *= kFactor;
    const std::uint64_t all = batch * config.train.accumulate * static_cast<std::uint64_t>(ranks);
    if (samples && all > *samples) break;
    batches.push_back(batch);
  }
  std::ranges::sort(batches);
  return batches;
}

/// The cluster with computing times of a config that has another batch than the config of the file.
ClusterFile with_batch(const TuningInput& input, const config::RunConfig& config,
                       std::size_t own_batch) {
  ClusterFile file = input.cluster;
  const double times =
      static_cast<double>(config.train.batch_size) / static_cast<double>(own_batch);
  for (forecast::Boards& boards : file.cluster.boards) boards.step_seconds *= times;
  // Its notes are those of the config itself, but for the batch.
  (void)complete(file, input.cluster_path, input.calibration, config);
  return file;
}

/// Makes and compares candidates of one config.
class Tuner {
 public:
  Tuner(const TuningInput& input, const Probe& probe, const config::RunConfig& base, Tuning& tuning)
      : input_(input), probe_(probe), base_(base), tuning_(tuning) {}

  std::uint64_t own_local_steps() const {
    return base_.synchronization.algorithm->averages_models
               ? *base_.synchronization.local_steps.count
               : 1;
  }

  Candidate as_it_is() {
    Candidate own = {.batch = base_.train.batch_size,
                     .local_steps = own_local_steps(),
                     .rate = base_.optimizer.learning_rate};
    own.run = plan_run({.name = "as it is", .config = base_}, cluster_of(own.batch, base_),
                       subject_of(own.batch, base_));
    estimate(own);
    return own;
  }

  /// @return nothing if the config's other keys or the boards' memory do not suit it, with the
  /// reason in `reason`
  std::optional<Candidate> candidate(std::size_t batch, std::uint64_t local_steps,
                                     std::string& reason) {
    Candidate result = {.batch = batch, .local_steps = local_steps};
    try {
      result.sets = keys_of(batch, local_steps);
      const config::RunConfig config = parsed(result.sets);
      result.run = plan_run({.name = name_of(result), .config = config}, cluster_of(batch, config),
                            subject_of(batch, config));
    } catch (const Error& error) {
      if (error.kind() != Kind::usage) throw;
      reason = error.what();
      return {};
    }
    if (!result.run.too_small.empty()) {
      reason =
          fmt::format("a rank needs {:.4g} MiB, more than the memory of {}",
                      result.run.memory_bytes / (1 << 20), fmt::join(result.run.too_small, ", "));
      return {};
    }
    set_rate(result);
    estimate(result);
    result.sets.push_back(fmt::format("train.steps={:.0f}", result.target_steps));
    return result;
  }

  std::optional<Candidate> one_board(const std::vector<std::size_t>& batches) {
    std::optional<Candidate> soonest;
    for (const std::size_t batch : batches) {
      Candidate alone = {.batch = batch};
      alone.sets = {fmt::format("train.batch_size={}", batch), "synchronization.algorithm=none"};
      const config::RunConfig config = parsed({alone.sets[0]});
      alone.run = plan_one_board({.name = {}, .config = config}, cluster_of(batch, config),
                                 subject_of(batch, config));
      if (!alone.run.too_small.empty()) continue;
      set_rate(alone);
      estimate(alone);
      alone.sets.push_back(fmt::format("train.steps={:.0f}", alone.target_steps));
      if (!soonest || alone.target_seconds < soonest->target_seconds) soonest = std::move(alone);
    }
    return soonest;
  }

  std::string name_of(const Candidate& one) const {
    return fmt::format("batch {}, {} local step{}", one.batch, one.local_steps,
                       one.local_steps == 1 ? "" : "s");
  }

  /// The rate that goes with the config's own batch and local steps.
  double rate_of(const Candidate& one) const {
    const RoundOfSteps to = {.samples = one.run.samples,
                             .local_steps = static_cast<double>(one.local_steps),
                             .noise_scale = tuning_.noise.scale};
    const RoundOfSteps from = {.samples = tuning_.samples, .noise_scale = tuning_.noise.scale};
    return rate_for(to, probe_.config.optimizer.learning_rate, from, tuning_.scale_free);
  }

 private:
  std::vector<std::string> keys_of(std::size_t batch, std::uint64_t local_steps) const {
    std::vector<std::string> keys = {fmt::format("train.batch_size={}", batch)};
    if (local_steps == own_local_steps()) return keys;
    const bool local = local_steps > 1;
    keys.push_back(fmt::format("synchronization.algorithm={}",
                               local ? sync::kLocalSgd.name : sync::kAllreduce.name));
    keys.push_back(fmt::format("synchronization.local_steps={}", local_steps));
    return keys;
  }

  config::RunConfig parsed(const std::vector<std::string>& keys) const {
    std::vector<std::string> sets = input_.sets;
    sets.insert(sets.end(), keys.begin(), keys.end());
    return config::parse_config(input_.config_text, input_.config_path, sets);
  }

  const ClusterFile& cluster_of(std::size_t batch, const config::RunConfig& config) {
    const auto found = clusters_.find(batch);
    if (found != clusters_.end()) return found->second;
    return clusters_.emplace(batch, with_batch(input_, config, base_.train.batch_size))
        .first->second;
  }

  Subject subject_of(std::size_t batch, const config::RunConfig& config) {
    Subject subject = input_.subject;
    subject.noise_scale = tuning_.noise.scale;
    subject.steps_at_1 = tuning_.steps_at_1;
    if (!input_.facts) return subject;
    const auto found = memory_.find(batch);
    if (found != memory_.end()) {
      subject.other_memory = found->second;
      return subject;
    }
    const setup::MemoryEstimate estimate = setup::estimate_memory(config, *input_.facts, 1, 1);
    subject.other_memory = estimate.program + estimate.data_set + estimate.activations;
    memory_[batch] = subject.other_memory;
    return subject;
  }

  void set_rate(Candidate& one) const {
    const std::string rate = fmt::format("{:.4g}", rate_of(one));
    one.rate = std::stod(rate);
    one.sets.push_back("optimizer.learning_rate=" + rate);
  }

  /// Whole rounds.
  void estimate(Candidate& one) const {
    const auto local = static_cast<double>(one.local_steps);
    const double steps =
        steps_of_rounds(tuning_.steps_at_1, {.samples = one.run.samples,
                                             .local_steps = local,
                                             .noise_scale = tuning_.noise.scale,
                                             .added_noise = one.run.noise.value_or(0)});
    one.target_steps = std::max(1.0, std::ceil(steps / local)) * local;
    one.target_seconds = one.target_steps * one.run.forecast.mean_seconds;
  }

  const TuningInput& input_;
  const Probe& probe_;
  const config::RunConfig& base_;
  const Tuning& tuning_;
  std::map<std::size_t, ClusterFile> clusters_;  // by batch
  std::map<std::size_t, std::uint64_t> memory_;  // by batch
};

/// How far a batch is from the config's.
double batch_distance(const Candidate& one, std::size_t own) {
  return std::abs(std::log(static_cast<double>(one.batch) / static_cast<double>(own)));
}

std::string left_out_note(const std::map<std::string, std::vector<std::string>>& left_out,
                          const std::string& reason) {
  const std::vector<std::string>& names = left_out.at(reason);
  constexpr std::size_t kNamed = 2;
  const std::size_t more = names.size() > kNamed ? names.size() - kNamed : 0;
  return fmt::format(
      "left out: {}{}: {}",
      fmt::join(names.begin(), names.end() - static_cast<std::ptrdiff_t>(more), "; "),
      more > 0 ? fmt::format(" and {} more", more) : "", reason);
}

std::vector<std::string> notes_on_tuning(const Tuning& tuning, const Probe& probe,
                                         const config::RunConfig& config) {
  std::vector<std::string> notes;
  const StepsToAccuracy& steps = tuning.steps;
  std::string how =
      fmt::format("the probe {} gets to an accuracy of {:.4g} in {:.0f} steps of {:.0f} samples",
                  tuning.probe, tuning.accuracy, steps.steps, tuning.samples);
  if (steps.at_most) how += " or fewer: its first evaluation is above it";
  if (steps.fitted)
    how += fmt::format(
        " by extrapolation: of {} evaluations up to step {:.0f} the error is {:.3g} + {:.3g} (step "
        "/ {:.0f})^-{:.3g}",
        probe.accuracies.size(), probe.accuracies.back().step, steps.asymptote, steps.factor,
        probe.accuracies.back().step, steps.power);
  notes.push_back(how);
  notes.push_back(fmt::format(
      "steps are S (1 + (1 + q) X / B) (McCandlish et al., 2018) with S = {:.4g} steps of an "
      "unlimited batch and the noise scale X = {:.4g} samples, the median of the probe's steps; a "
      "round of H local steps counts as a step with its H B samples, which is proven "
      "for quadratic losses only (Woodworth et al., 2020)",
      tuning.steps_at_1, tuning.noise.scale));
  notes.push_back(fmt::format(
      "learning rates: the probe's {:.4g} counts as the best for its batch; others are in "
      "proportion to {} ({})",
      probe.config.optimizer.learning_rate,
      tuning.scale_free ? "the square root of 1 / (H + X / B)" : "1 / (H + X / B)",
      tuning.scale_free ? "Malladi et al., 2022, for Adam; taken for every optimizer whose updates "
                          "do not grow with the gradient"
                        : "McCandlish et al., 2018, equation 2.6, for a batch of H B"));
  if (tuning.has_other_rate())
    notes.push_back(fmt::format(
        "the config as it is has optimizer.learning_rate {:.4g}, where {:.4g} goes with its batch: "
        "its time is that of the best rate",
        config.optimizer.learning_rate, tuning.law_rate));
  if (!tuning.as_it_is.run.noise && tuning.as_it_is.run.ranks > 1 &&
      !config.compressor.make()->properties().lossless)
    notes.push_back(
        fmt::format("what {} rounds away and what local steps add to it is not in the steps",
                    config.compressor.name->name));
  if (!config.schedule.milestones.empty())
    notes.emplace_back(
        "schedule.milestones stay as they are, in epochs; a choice of other epochs needs others");
  return notes;
}

figures::Row candidate_row(const Candidate& one) {
  figures::Row row = {{"batch_size", one.batch},
                      {"local_steps", one.local_steps},
                      {"learning_rate", one.rate},
                      {"samples", one.run.samples},
                      {"step_seconds", one.run.forecast.mean_seconds},
                      {"target_steps", one.target_steps},
                      {"target_seconds", one.target_seconds},
                      {"memory_bytes_per_rank", one.run.memory_bytes},
                      {"sent_bytes_per_rank", one.run.forecast.sent_bytes},
                      {"ranks", one.run.ranks}};
  if (one.run.noise) row["compression_noise"] = *one.run.noise;
  row["sets"] = one.sets;
  return row;
}

void print_candidates(const Tuning& tuning) {
  constexpr std::size_t kShown = 12;
  std::vector<figures::Row> rows;
  const auto add = [&](const std::string& name, const Candidate& one) {
    figures::Row row = candidate_row(one);
    row["name"] = name;
    row["minutes"] = one.target_seconds / 60;
    row["mib"] = one.run.memory_bytes / (1 << 20);
    row["times"] = one.target_seconds / tuning.choice().target_seconds;
    rows.push_back(std::move(row));
  };
  for (std::size_t i = 0; i < std::min(kShown, tuning.candidates.size()); ++i)
    add(i == 0 ? "choice" : "", tuning.candidates[i]);
  add("as it is", tuning.as_it_is);
  if (tuning.one_board) add(tuning.one_board->run.scheme, *tuning.one_board);
  fmt::print("{} ranks, by time to an accuracy of {:.4g}:\n", tuning.as_it_is.run.ranks,
             tuning.accuracy);
  figures::print_rows(rows,
                      {{"batch_size", "batch/rank"},
                       {"local_steps", "local steps"},
                       {"learning_rate", "rate"},
                       {"step_seconds", "s/step"},
                       {"target_steps", "steps", 6},
                       {"minutes", "min to target", 3},
                       {"times", "x choice", 3},
                       {"mib", "MiB/rank", 4},
                       {"name", "which"}},
                      false);
  if (tuning.candidates.size() > kShown)
    fmt::print("{} more candidates take longer; --json has them.\n",
               tuning.candidates.size() - kShown);
}

}  // namespace

void require_tunable(const config::RunConfig& config) {
  const auto& s = config.synchronization;
  if (!(s.algorithm == sync::kAllreduce || s.algorithm == sync::kLocalSgd) || s.quorum > 0)
    fail(Kind::usage,
         "tuning: expected synchronization.algorithm \"allreduce\" or \"local-sgd\" without a "
         "quorum, whose local steps are chosen, found \"{}\"{}; set it",
         s.algorithm->name, s.quorum > 0 ? " with a quorum" : "");
  require_counted_steps(config);
  if (config.train.is_emulated())
    fail(Kind::usage,
         "tuning: expected train.emulate_compute null, for such a run trains nothing, found it "
         "set; leave it out");
  if (std::holds_alternative<std::vector<std::uint64_t>>(config.train.batch_sizes))
    fail(Kind::usage,
         "tuning: expected train.batch_sizes null or \"auto\", for the batch is chosen, found a "
         "list; leave it out");
}

double steps_of_rounds(double steps_at_1, const RoundOfSteps& round) {
  return round.local_steps * steps_to_target(steps_at_1, round.added_noise,
                                             round.local_steps * round.samples, round.noise_scale);
}

double rate_for(const RoundOfSteps& to, double rate, const RoundOfSteps& from, bool scale_free) {
  const auto divisor = [](const RoundOfSteps& round) {
    return round.local_steps + round.noise_scale / round.samples;
  };
  const double ratio = divisor(from) / divisor(to);
  return rate * (scale_free ? std::sqrt(ratio) : ratio);
}

bool Tuning::has_other_rate() const {
  constexpr double kNear = 1.2;
  return std::abs(std::log(law_rate / as_it_is.rate)) > std::log(kNear);
}

Tuning tune(const TuningInput& input, const Probe& probe) {
  const config::RunConfig base =
      config::parse_config(input.config_text, input.config_path, input.sets);
  require_tunable(base);
  require_probe_of(base, probe);
  Tuning tuning = {.accuracy = input.accuracy,
                   .probe = probe.run,
                   .steps = steps_to_accuracy(probe.accuracies, input.accuracy, probe.run),
                   .noise = {},
                   .samples = probe.samples,
                   .scale_free = base.optimizer.name->is_scale_free,
                   .candidates = {},
                   .as_it_is = {}};
  tuning.noise = noise_until(probe.noise, tuning.steps.steps, probe.run);
  tuning.steps_at_1 = tuning.steps.steps /
                      steps_to_target(1, tuning.noise.share, probe.samples, tuning.noise.scale);
  Tuner tuner(input, probe, base, tuning);
  tuning.as_it_is = tuner.as_it_is();
  const int ranks = tuning.as_it_is.run.ranks;
  const std::vector<std::size_t> batches = batches_for(base, ranks, input.subject.samples);
  std::map<std::string, std::vector<std::string>> left_out;
  std::vector<std::string> reasons;  // in their order
  for (const std::size_t batch : batches) {
    for (const std::uint64_t local_steps : kLocalSteps) {
      if (ranks == 1 && local_steps > 1) break;
      std::string reason;
      if (auto found = tuner.candidate(batch, local_steps, reason)) {
        tuning.candidates.push_back(std::move(*found));
        continue;
      }
      if (!left_out.contains(reason)) reasons.push_back(reason);
      left_out[reason].push_back(fmt::format("batch {} with {} local steps", batch, local_steps));
    }
  }
  if (tuning.candidates.empty())
    fail(Kind::usage, "tuning: no batch and number of local steps has a plan; {}", reasons.back());
  std::ranges::sort(tuning.candidates, {}, &Candidate::target_seconds);
  const double limit = (1 + kTie) * tuning.candidates[0].target_seconds;
  const auto tied = std::ranges::find_if(
      tuning.candidates, [&](const Candidate& one) { return one.target_seconds > limit; });
  const auto simplest = std::min_element(
      tuning.candidates.begin(), tied, [&](const Candidate& a, const Candidate& b) {
        const auto key = [&](const Candidate& one) {
          return std::pair(one.local_steps, batch_distance(one, base.train.batch_size));
        };
        return key(a) < key(b);
      });
  std::rotate(tuning.candidates.begin(), simplest, simplest + 1);
  int boards = 0;
  for (const forecast::Boards& kind : input.cluster.cluster.boards) boards += kind.count;
  if (boards > 1) tuning.one_board = tuner.one_board(batches);
  tuning.law_rate = tuner.rate_of(tuning.as_it_is);
  tuning.notes = notes_on_tuning(tuning, probe, base);
  for (const std::string& reason : reasons) tuning.notes.push_back(left_out_note(left_out, reason));
  return tuning;
}

std::string sentence_of(const Tuning& tuning) {
  const Candidate& best = tuning.choice();
  const auto with_sets = [](const Candidate& one) {
    return fmt::format("--set {}, about {:.0f} steps in {}", fmt::join(one.sets, " --set "),
                       one.target_steps, duration(one.target_seconds));
  };
  const auto compared = [](const Candidate& one, const Candidate& with) {
    return fmt::format("{}, {:.3g} times as long", duration(one.target_seconds),
                       one.target_seconds / with.target_seconds);
  };
  const std::string own = fmt::format(
      "the config as it is (batch {}, {} local step{}{}): {}", tuning.as_it_is.batch,
      tuning.as_it_is.local_steps, tuning.as_it_is.local_steps == 1 ? "" : "s",
      tuning.has_other_rate() ? fmt::format(", with the rate {:.4g}", tuning.law_rate) : "",
      compared(tuning.as_it_is, best));
  if (tuning.one_board_is_soonest())
    return fmt::format(
        "Soonest at an accuracy of {:.4g} is {}: {}; {} ranks: {}, {}; {}.", tuning.accuracy,
        tuning.one_board->run.scheme, with_sets(*tuning.one_board), best.run.ranks, with_sets(best),
        fmt::format("{:.3g} times as long", best.target_seconds / tuning.one_board->target_seconds),
        own);
  std::string text = fmt::format("Soonest at an accuracy of {:.4g}: {}; {}", tuning.accuracy,
                                 with_sets(best), own);
  if (tuning.one_board)
    text += fmt::format("; {} with batches of {}: {}", tuning.one_board->run.scheme,
                        tuning.one_board->batch, compared(*tuning.one_board, best));
  return text + ".";
}

void print_tuning(const Tuning& tuning, bool json) {
  if (!json) {
    fmt::print("{}\n\n", sentence_of(tuning));
    print_candidates(tuning);
    fmt::print("\n");
    for (const std::string& note : tuning.notes) fmt::print("* {}\n", note);
    return;
  }
  ordered_json document = {{"summary", sentence_of(tuning)},
                           {"accuracy", tuning.accuracy},
                           {"ranks", tuning.as_it_is.run.ranks}};
  document["probe"] = {{"run", tuning.probe},
                       {"samples", tuning.samples},
                       {"steps", tuning.steps.steps},
                       {"at_most", tuning.steps.at_most},
                       {"extrapolated", tuning.steps.fitted},
                       {"noise_scale", tuning.noise.scale},
                       {"compression_noise", tuning.noise.share},
                       {"steps_at_1", tuning.steps_at_1}};
  document["choice"] = candidate_row(tuning.choice());
  document["as_it_is"] = candidate_row(tuning.as_it_is);
  document["one_board"] = nullptr;
  if (tuning.one_board) {
    document["one_board"] = candidate_row(*tuning.one_board);
    document["one_board"]["soonest"] = tuning.one_board_is_soonest();
  }
  document["candidates"] = ordered_json::array();
  for (const Candidate& one : tuning.candidates)
    document["candidates"].push_back(candidate_row(one));
  document["notes"] = tuning.notes;
  fmt::print("{}\n", document.dump(2));
}

}  // namespace eqt::planner
