// SPDX-License-Identifier: Apache-2.0
// Rounds of a quorum on ranks of different speeds, and a simulation of all ranks in one process.

#pragma once

#include <chrono>
#include <cmath>
#include <functional>
#include <memory>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "codec/catalogue.hpp"
#include "collective/memory.hpp"
#include "comm/communicator.hpp"
#include "core/flat_buffer.hpp"
#include "pipeline/plan.hpp"
#include "sync/gradient_averaging.hpp"
#include "sync/quorum/quorum_rounds.hpp"

namespace eqt::test::quorum {

inline constexpr std::size_t kValues = 60;
inline const Layout kLayout = {{"weight", {5, 10}, 0, 50}, {"bias", {10}, 50, 10}};

/// A rank's step: towards a point of its own, a little different in each step.
inline double step_of(double value, std::size_t i, int rank, StepId step) {
  const double target = std::sin(0.7 * static_cast<double>(i) + rank) +
                        0.1 * std::cos(static_cast<double>(step * 3 + i));
  return value - 0.05 * (value - target);
}

inline std::vector<float> start_values() {
  std::vector<float> values(kValues);
  for (std::size_t i = 0; i < kValues; ++i) values[i] = 0.01f * static_cast<float>(i);
  return values;
}

struct Settings {
  StepId local_steps = 4, delay = 4;
  std::size_t quorum = 1;
  std::optional<double> grace_seconds = {};
  sync::OuterStep outer = {};
  StepId total_steps = 18, epoch_steps = 18;
  std::optional<sync::QuorumReplay> replay = {};
  std::function<double(int rank, StepId step)> seconds = {};  // of a step; empty: none
};

/// One rank's part of a run.
class Node {
 public:
  Node(comm::Communicator& comm, const codec::Compressor& compressor, const Settings& settings)
      : comm_(comm), settings_(settings), difference_(kValues) {
    parameters_ = start_values();
    auto buckets =
        pipeline::plan_buckets(kLayout, compressor, {.skip_below = 1, .bucket_bytes = 4});
    auto group = collective::everyone(comm);
    group.senders = &senders_;
    collective_ = collective::make_allgather(comm, compressor, buckets, std::move(group));
    if (compressor.properties().needs_feedback) {
      feedback_ = collective::make_error_feedback(kValues);
      memory_.emplace(*feedback_);
    }
    sync::GradientAveragingOptions options;
    options.overlap = false;
    sync::QuorumMemory* const memory = memory_ ? &*memory_ : nullptr;
    auto mean = sync::make_gradient_averaging(comm, *collective_, memory, std::move(buckets),
                                              kLayout, difference_.span(), options);
    synchronizer_ = sync::make_quorum_rounds(
        {.comm = comm,
         .mean = std::move(mean),
         .senders = senders_,
         .memory = memory,
         .parameters = parameters_,
         .difference = difference_.span(),
         .layout = kLayout},
        {.local_steps = settings.local_steps,
         .delay = settings.delay,
         .quorum = settings.quorum,
         .grace_seconds = settings.grace_seconds,
         .outer = settings.outer,
         .total_steps = settings.total_steps,
         .next_pause = [settings](StepId done) { return next_pause(settings, done); },
         .timeout_seconds = 30,
         .replay = settings.replay,
         .on_round =
             [this](std::uint64_t, std::span<const float> common) {
               commons_.emplace_back(common.begin(), common.end());
             }});
  }

  static StepId next_pause(const Settings& settings, StepId done) {
    return std::min(settings.total_steps, (done / settings.epoch_steps + 1) * settings.epoch_steps);
  }

  void start() { synchronizer_->start(); }

  /// As the trainer does. @return false after the run
  bool epoch() {
    const StepId end = next_pause(settings_, done_);
    const auto ranks = static_cast<std::uint64_t>(comm_.size());
    do {
      synchronizer_->begin(own_, 0);
      (void)synchronizer_->finish();
      if (settings_.seconds)
        std::this_thread::sleep_for(
            std::chrono::duration<double>(settings_.seconds(comm_.rank(), own_)));
      for (std::size_t i = 0; i < kValues; ++i)
        parameters_[i] =
            static_cast<float>(step_of(static_cast<double>(parameters_[i]), i, comm_.rank(), own_));
      ++own_;
      (void)synchronizer_->after_update(0.1f);
      done_ = std::min(end, synchronizer_->own_pace()->steps_of_all_ranks() / ranks);
    } while (done_ < end);
    const sync::SyncResult result = synchronizer_->own_pace()->end_epoch();
    done_ = std::min(end, synchronizer_->own_pace()->steps_of_all_ranks() / ranks);
    decisions_.insert(decisions_.end(), result.decisions.begin(), result.decisions.end());
    return done_ < settings_.total_steps;
  }

  void run() {
    start();
    while (epoch()) {
    }
  }

  /// Continues after `own` steps.
  void go_to(StepId own, StepId done) {
    own_ = own;
    done_ = done;
  }
  sync::Synchronizer& synchronizer() { return *synchronizer_; }
  std::vector<float>& parameters() { return parameters_; }
  StepId own() const { return own_; }
  StepId done() const { return done_; }
  const std::vector<metrics::DecisionRecord>& decisions() const { return decisions_; }
  const std::vector<std::vector<float>>& commons() const { return commons_; }  // after each round

 private:
  comm::Communicator& comm_;
  const Settings settings_;
  FlatBuffer difference_;
  std::vector<float> parameters_;
  collective::Senders senders_;
  std::unique_ptr<collective::Collective> collective_;
  std::unique_ptr<collective::GradientMemory> feedback_;
  std::optional<sync::QuorumMemory> memory_;
  std::vector<std::vector<float>> commons_;
  std::vector<metrics::DecisionRecord> decisions_;
  StepId own_ = 0, done_ = 0;
  std::unique_ptr<sync::Synchronizer> synchronizer_;  // last: its thread uses all of the above
};

/// What the rounds of a run must lead to, in double: r after the run's last round. Checks that the
/// recorded counts are those of the steps.
class Simulation {
 public:
  using Model = std::vector<double>;

  Simulation(std::size_t ranks, const Settings& settings, const sync::QuorumReplay& rounds)
      : settings_(settings), rounds_(rounds), workers_(ranks), momentum_(kValues) {
    const std::vector<float> first = start_values();
    common_.assign(first.begin(), first.end());
    for (Worker& worker : workers_) worker.model = worker.common = common_;
  }

  /// @param steps of each rank in the whole run
  Model run(std::span<const StepId> steps) {
    for (std::uint64_t k = 1; k <= rounds_.last(); ++k) {
      const sync::QuorumRound& round = rounds_.at(k);
      std::vector<double> counts(workers_.size());
      for (std::size_t r = 0; r < workers_.size(); ++r) {
        if (round.counts[r] == 0) continue;
        Worker& worker = workers_[r];
        while (!worker.outstanding || worker.in_round) step(r);
        counts[r] = static_cast<double>(worker.made - worker.counted);
        counts_hold_ &= counts[r] == round.counts[r];
        worker.counted = worker.made;
        worker.own_round = k;
        worker.in_round = true;
      }
      shifts_.push_back(move_common(counts));
    }
    std::vector<double> counts;
    for (std::size_t r = 0; r < workers_.size(); ++r) {
      Worker& worker = workers_[r];
      while (worker.steps < steps[r]) step(r);
      for (std::size_t i = 0; i < kValues; ++i) worker.difference[i] = common_[i] - worker.model[i];
      counts.push_back(static_cast<double>(steps[r] - worker.counted));
    }
    (void)move_common(counts);
    return common_;
  }

  bool counts_hold() const { return counts_hold_; }

 private:
  struct Worker {
    Model model = {}, common = {}, difference = Model(kValues);
    StepId steps = 0, made = 0, counted = 0;
    bool outstanding = false, in_round = false;
    std::uint64_t own_round = 0, applied = 0;
  };

  /// @return what r has moved by
  Model move_common(const std::vector<double>& counts) {
    double total = 0;
    for (const double count : counts) total += count;
    Model shift(kValues);
    const auto mu = static_cast<double>(settings_.outer.momentum);
    for (std::size_t i = 0; i < kValues; ++i) {
      double mean = 0;
      for (std::size_t r = 0; r < counts.size(); ++r)
        if (counts[r] > 0) mean += counts[r] / total * workers_[r].difference[i];
      momentum_[i] = mu * momentum_[i] + mean;
      const double direction = settings_.outer.nesterov ? mean + mu * momentum_[i] : momentum_[i];
      shift[i] = static_cast<double>(settings_.outer.learning_rate) * direction;
      common_[i] -= shift[i];
    }
    return shift;
  }

  void step(std::size_t r) {
    Worker& worker = workers_[r];
    for (std::size_t i = 0; i < kValues; ++i)
      worker.model[i] = step_of(worker.model[i], i, static_cast<int>(r), worker.steps);
    ++worker.steps;
    while (worker.applied < shifts_.size() &&
           rounds_.at(worker.applied + 1).applied_after[r] == static_cast<double>(worker.steps)) {
      ++worker.applied;
      const bool own = worker.in_round && worker.own_round == worker.applied;
      for (std::size_t i = 0; i < kValues; ++i) {
        const double shift = shifts_[worker.applied - 1][i];
        worker.common[i] -= shift;
        worker.model[i] += (own ? worker.difference[i] : 0) - shift;
      }
      if (own) worker.outstanding = worker.in_round = false;
    }
    if (worker.outstanding || worker.steps - worker.made < settings_.local_steps) return;
    for (std::size_t i = 0; i < kValues; ++i)
      worker.difference[i] = worker.common[i] - worker.model[i];
    worker.outstanding = true;
    worker.made = worker.steps;
  }

  const Settings settings_;
  const sync::QuorumReplay& rounds_;
  std::vector<Worker> workers_;
  Model common_, momentum_;
  std::vector<Model> shifts_;  // by round
  bool counts_hold_ = true;
};

}  // namespace eqt::test::quorum
