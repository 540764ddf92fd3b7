// SPDX-License-Identifier: Apache-2.0
#include "setup/build_synchronization.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "codec/levels/adaptive_codec.hpp"
#include "codec/mixed/mixed_grades.hpp"
#include "collective/exact_grades.hpp"
#include "core/error.hpp"
#include "metrics/run_files.hpp"
#include "setup/agree_on_topology.hpp"
#include "setup/build_grades.hpp"
#include "setup/make_collective.hpp"

namespace eqt::setup {

void require_thread(const config::RunConfig& config, bool communication_thread) {
  if (communication_thread || !config.synchronization.is_asynchronous()) return;
  const bool quorum = config.synchronization.quorum > 0;
  fail(Kind::mpi,
       "synchronization.{}: expected an MPI that admits a communication thread "
       "(MPI_THREAD_SERIALIZED), found one that does not; use another MPI or {}",
       quorum ? "quorum" : fmt::format("algorithm {}", config.synchronization.algorithm->name),
       quorum ? "no quorum" : "d-psgd");
}

namespace {

/// Null: the compressor stays as it is.
std::unique_ptr<adaptation::Adaptation> make_adaptation(const config::RunConfig& config,
                                                        const SyncBase& base) {
  codec::Compressor& compressor = *base.messages.compressor;
  const sync::AlgorithmRow& algorithm = *config.synchronization.algorithm;
  if (algorithm.averages() && compressor.mixed_grades() != nullptr)
    return build_grade_adaptation(config, base);
  codec::AdaptiveLevelCodec* const adaptive = compressor.adaptive_levels();
  // Adapting takes a step that all ranks share, and messages that they encode in it.
  if (adaptive == nullptr || !algorithm.adapts()) return nullptr;
  return adaptation::make_level_adaptation(base.comm, *adaptive, config.compressor.adapt_every);
}

/// Steps in which local SGD averages as if it were none.
StepId dense_steps(const config::RunConfig& config, const train::Plan& plan) {
  const std::uint64_t epochs = config.synchronization.post_local_epochs;
  if (epochs == 0) return 0;
  const auto steps = static_cast<std::int64_t>(epochs * plan.steps_per_epoch) - plan.shift;
  return static_cast<StepId>(std::max<std::int64_t>(0, steps));
}

sync::LocalSgdPlan rounds_of(const config::RunConfig& config, const train::Plan& of_run,
                             const optim::Schedule& schedule) {
  const auto& s = config.synchronization;
  sync::LocalSgdPlan plan = {.local_steps = s.local_steps.count.value_or(1),
                             .dense_steps = dense_steps(config, of_run),
                             .total_steps = of_run.total_steps,
                             .delay = s.delay.count,
                             .fragments = s.fragments};
  if (s.local_steps.count) return plan;
  const sync::QuadraticRule rule = {.least = s.local_steps_base,
                                    .most = s.local_steps_most,
                                    .alpha = config::quadratic_rule_alpha(config)};
  const double warmup = config.schedule.warmup_epochs * static_cast<double>(of_run.steps_per_epoch);
  plan.ends = sync::quadratic_round_ends(
      rule, [&](StepId position) { return schedule.rate(position); }, plan.total_steps,
      of_run.shift,
      static_cast<StepId>(std::llround(warmup)));  // as the schedule
  return plan;
}

sync::OuterStep outer_step(const config::RunConfig& config) {
  const auto& outer = config.synchronization.outer;
  sync::OuterStep step{.learning_rate = static_cast<float>(outer.learning_rate),
                       .momentum = static_cast<float>(outer.momentum),
                       .nesterov = outer.nesterov,
                       .by_rate = outer.by_rate};
  if (outer.mixing.value) step.mixing = static_cast<float>(*outer.mixing.value);
  return step;
}

/// Grades that lose nothing are averaged by `dense`, and so in shared memory, too.
void average_exact_grades(const SyncBase& base, SyncParts& parts) {
  codec::MixedGrades* const grades = base.messages.compressor->mixed_grades();
  if (grades == nullptr || !parts.collective->row().takes_exact_grades) return;
  parts.collective = collective::dense_if_exact(base.comm, *grades, std::move(parts.collective));
  base.comm.share_memory(base.replica.gradient_memory());
}

/// The rounds that train.replay repeats.
std::optional<sync::QuorumReplay> replayed_rounds(const config::RunConfig& config, int ranks) {
  if (config.synchronization.quorum == 0 || config.train.replay.empty()) return {};
  return sync::QuorumReplay(metrics::read_decisions(config.train.replay, sync::kQuorumDecisions),
                            static_cast<std::size_t>(ranks));
}

sync::AlgorithmParts algorithm_parts(const config::RunConfig& config, const SyncBase& base,
                                     const SyncParts& parts) {
  model::Replica& replica = base.replica;
  return {.row = *config.synchronization.algorithm,
          .comm = base.comm,
          .compressor = *base.messages.compressor,
          .buckets = std::move(base.messages.buckets),
          .layout = replica.layout(),
          .parameters = replica.parameters(),
          .gradient = replica.gradient(),
          .gradient_memory = replica.gradient_memory(),
          .memory = base.messages.memory.get(),
          .collective = parts.collective.get(),
          .topology = parts.topology.get(),
          .adaptation = parts.adaptation.get(),
          .encoder = parts.encoding.encoder.get(),
          .leave_on_device = [&replica](bool leave) { replica.leave_gradient_on_device(leave); },
          .network = replica.weight_rounding(),
          .divergence = &base.divergence,
          .timeline = base.timeline,
          .fault = base.plan.fault};
}

}  // namespace

sync::AlgorithmSettings algorithm_settings(const config::RunConfig& config, const train::Plan& plan,
                                           const optim::Schedule& schedule,
                                           bool communication_thread, int ranks) {
  const auto& s = config.synchronization;
  const config::RunConfig::Optimizer& o = config.optimizer;
  return {.run_seed = config.seed,
          .overlap = s.overlap && communication_thread,
          .timeout_seconds = s.timeout_seconds,
          .next_pause = [plan](StepId done) { return plan.next_pause(done); },
          .density =
              [density = config.compressor.density,
               warmup = config.compressor.warmup_epochs](std::uint64_t epoch) {
                return collective::dgc_density(density, warmup, static_cast<double>(epoch));
              },
          .momentum_kind = o.momentum_kind,
          .momentum = static_cast<float>(o.momentum),
          .nesterov = o.nesterov,
          .weight_decay = static_cast<float>(o.weight_decay),
          .rounds = rounds_of(config, plan, schedule),
          .outer = outer_step(config),
          .quorum = s.quorum,
          .grace_seconds = s.grace_seconds,
          .replay = replayed_rounds(config, ranks),
          .lazy = {.bits = static_cast<unsigned>(s.laq_bits),
                   .history = s.laq_history,
                   .weight = s.laq_weight,
                   .silence = s.laq_silence},
          .consensus_step = s.consensus_step,
          .order = s.order,
          .adaptive_step = s.adaptive_step,
          .network_weights = s.network_weights,
          .resync_every = s.resync_every,
          .events = {.threshold = s.event_threshold, .silence = s.event_silence}};
}

SyncParts build_synchronization(const config::RunConfig& config, const SyncBase& base) {
  const sync::AlgorithmRow& row = *config.synchronization.algorithm;
  SyncParts parts;
  if (row.mixes) parts.topology = agree_on_topology(config.synchronization.topology, base.comm);
  const auto build = [&] {
    const MessageParts& messages = base.messages;
    const bool plays_ranks = base.simulation != nullptr;
    if (row.averages() && !plays_ranks && config.synchronization.quorum == 0) {
      parts.collective = make_collective(config, base.comm, *messages.compressor,
                                         messages.memory != nullptr, messages.buckets);
      average_exact_grades(base, parts);
    }
    // Whether memory is shared tells what grades cost.
    parts.adaptation = make_adaptation(config, base);
    parts.encoding =
        choose_encoder(config, base, row.averages_gradients ? parts.collective.get() : nullptr);
    const sync::AlgorithmSettings settings = algorithm_settings(
        config, base.plan, base.schedule, base.communication_thread, base.comm.size());
    sync::AlgorithmParts own = algorithm_parts(config, base, parts);
    if (!plays_ranks) {
      parts.algorithm = row.make(std::move(own), settings);
      return;
    }
    const sync::GradientAveragingOptions options = sync::averaging_options(own, settings);
    parts.algorithm.synchronizer =
        build_simulated_averaging(config, *messages.compressor, std::move(own.buckets),
                                  base.replica, options, *base.simulation);
  };
  // Algorithms that mix agree by themselves, between what they exchange.
  if (row.mixes)
    build();
  else
    base.comm.agree_after(build);
  return parts;
}

}  // namespace eqt::setup
