// SPDX-License-Identifier: Apache-2.0
#include "setup/build_synchronization.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "codec/levels/adaptive_codec.hpp"
#include "collective/exact_grades.hpp"
#include "core/error.hpp"
#include "setup/build_grades.hpp"
#include "setup/make_collective.hpp"
#include "sync/gossip/asynchronous_gossip.hpp"
#include "sync/gossip/gossip_averaging.hpp"
#include "sync/gossip/periodic_gossip.hpp"
#include "sync/gradient_averaging.hpp"
#include "sync/lazy/lazy_averaging.hpp"
#include "sync/local/local_sgd.hpp"
#include "sync/quorum/quorum_rounds.hpp"

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
                                                        comm::Communicator& comm,
                                                        codec::Compressor& compressor) {
  codec::AdaptiveLevelCodec* const adaptive = compressor.adaptive_levels();
  if (adaptive == nullptr) return nullptr;
  return adaptation::make_level_adaptation(comm, *adaptive, config.compressor.adapt_every);
}

/// Adapting takes a step that all ranks share.
void note_fixed_levels(codec::Compressor& compressor, std::string& note) {
  if (compressor.adaptive_levels() == nullptr) return;
  if (!note.empty()) note += "; ";
  note += "levels stay as they start, for ranks share no step in which they could adapt";
}

SyncParts build_asynchronous_gossip(const config::RunConfig& config, const SyncBase& base,
                                    SyncParts parts) {
  codec::Compressor& compressor = *base.messages.compressor;
  note_fixed_levels(compressor, parts.gossip->note);
  parts.synchronizer =
      sync::make_asynchronous_gossip({.comm = base.comm,
                                      .pairs = *parts.gossip->pairs,
                                      .model = *parts.gossip->shared_model,
                                      .plan = base.messages.buckets,
                                      .parameters = base.replica.parameters()},
                                     {.role = parts.gossip->role,
                                      .lossy = !compressor.properties().lossless,
                                      .timeout_seconds = config.synchronization.timeout_seconds,
                                      .fault = base.plan.fault});
  return parts;
}

/// In a run whose ranks take steps alone, rounds count as steps for what adapts and for faults.
std::optional<comm::Fault> fault_in_round(const config::RunConfig& config,
                                          const train::Plan& plan) {
  std::optional<comm::Fault> fault = plan.fault;
  if (fault) fault->step /= *config.synchronization.local_steps.count;
  return fault;
}

sync::GradientAveragingOptions averaging_options(const config::RunConfig& config,
                                                 const SyncBase& base, const SyncParts& parts,
                                                 bool communication_thread) {
  sync::GradientAveragingOptions options;
  options.run_seed = config.seed;
  options.overlap = config.synchronization.overlap && communication_thread;
  options.adaptation = parts.adaptation.get();
  options.fault = base.plan.fault;
  options.divergence = &base.divergence;
  options.timeline = base.timeline;
  options.lossy = !base.messages.compressor->properties().lossless;
  options.largest = base.messages.compressor->properties().largest;
  if (base.messages.compressor->properties().forgets_sent) {
    options.density = [density = config.compressor.density,
                       warmup = config.compressor.warmup_epochs](std::uint64_t epoch) {
      return collective::dgc_density(density, warmup, static_cast<double>(epoch));
    };
  }
  return options;
}

/// Steps in which local SGD averages as if it were none.
StepId dense_steps(const config::RunConfig& config, const train::Plan& plan) {
  const std::uint64_t epochs = config.synchronization.post_local_epochs;
  if (epochs == 0) return 0;
  const auto steps = static_cast<std::int64_t>(epochs * plan.steps_per_epoch) - plan.shift;
  return static_cast<StepId>(std::max<std::int64_t>(0, steps));
}

sync::LocalSgdPlan build_local_sgd_plan(const config::RunConfig& config, const SyncBase& base) {
  const auto& s = config.synchronization;
  sync::LocalSgdPlan plan = {.local_steps = s.local_steps.count.value_or(1),
                             .dense_steps = dense_steps(config, base.plan),
                             .total_steps = base.plan.total_steps,
                             .delay = s.delay.count,
                             .fragments = s.fragments};
  if (s.local_steps.count) return plan;
  const sync::QuadraticRule rule = {.least = s.local_steps_base,
                                    .most = s.local_steps_most,
                                    .alpha = config::quadratic_rule_alpha(config)};
  const double warmup =
      config.schedule.warmup_epochs * static_cast<double>(base.plan.steps_per_epoch);
  plan.ends = sync::quadratic_round_ends(
      rule, [&](StepId position) { return base.schedule.rate(position); }, plan.total_steps,
      base.plan.shift,
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

/// Where all ranks are on one host, a dense mean needs no messages.
void share_memory(const SyncBase& base, const collective::Collective& collective,
                  FlatBuffer* averaged) {
  if (collective.row().shares_memory) base.comm.share_memory(averaged);
}

/// Grades that lose nothing are averaged by `dense`, and so in shared memory, too.
void average_exact_grades(const SyncBase& base, SyncParts& parts) {
  codec::MixedGrades* const grades = base.messages.compressor->mixed_grades();
  if (grades == nullptr || !parts.collective->row().takes_exact_grades) return;
  parts.collective = collective::dense_if_exact(base.comm, *grades, std::move(parts.collective));
  base.comm.share_memory(base.replica.gradient_memory());
}

/// Steps of the mean are averages: they count as steps for what adapts and for faults.
void build_local_sgd(const config::RunConfig& config, const SyncBase& base, SyncParts& parts) {
  model::Replica& replica = base.replica;
  const sync::LocalSgdPlan steps = build_local_sgd_plan(config, base);
  const bool late = steps.delays();
  if (late) parts.difference = FlatBuffer(replica.parameters().size());
  const std::span<float> difference = late ? parts.difference.span() : replica.gradient();
  share_memory(base, *parts.collective, late ? &parts.difference : replica.gradient_memory());
  sync::GradientAveragingOptions options =
      averaging_options(config, base, parts, late && base.communication_thread);
  const std::size_t buckets = base.messages.buckets.size();
  if (steps.fragments > buckets)
    fail(Kind::usage,
         "synchronization.fragments: expected at most {}, the fusion buckets of this model, found "
         "{}; set fewer, or a smaller synchronization.bucket_mib",
         buckets, steps.fragments);
  if (options.fault)
    options.fault->step = steps.averages_before(
        options.fault->step, options.fault->bucket.value_or(0) % steps.fragments);
  parts.direction = make_direction(config, replica.parameters().size());
  parts.synchronizer =
      sync::make_local_sgd({.comm = base.comm,
                            .mean = sync::make_fragment_averaging(
                                base.comm, *parts.collective, base.messages.memory.get(),
                                std::move(base.messages.buckets), steps.fragments, replica.layout(),
                                difference, options),
                            .direction = parts.direction.get(),
                            .parameters = replica.parameters(),
                            .gradient = replica.gradient(),
                            .difference = difference,
                            .layout = replica.layout(),
                            .divergence = &base.divergence},
                           steps, outer_step(config));
}

/// The number of ranks is known here only.
void require_quorum(const config::RunConfig& config, const SyncBase& base) {
  const auto ranks = static_cast<std::uint64_t>(base.comm.size());
  const std::uint64_t quorum = config.synchronization.quorum;
  if (quorum < (ranks + 1) / 2 || quorum > ranks)
    fail(Kind::usage,
         "synchronization.quorum: expected from {} to {}, at least half of the {} ranks, found {}",
         (ranks + 1) / 2, ranks, ranks, quorum);
}

void build_quorum_rounds(const config::RunConfig& config, const SyncBase& base, SyncParts& parts) {
  const auto& s = config.synchronization;
  require_quorum(config, base);
  model::Replica& replica = base.replica;
  parts.quorum = std::make_unique<QuorumParts>();
  if (base.messages.memory != nullptr) parts.quorum->memory.emplace(*base.messages.memory);
  sync::QuorumMemory* const memory = parts.quorum->memory ? &*parts.quorum->memory : nullptr;
  collective::Group group = collective::everyone(base.comm);
  group.senders = &parts.quorum->senders;
  parts.collective = collective::make_allgather(base.comm, *base.messages.compressor,
                                                base.messages.buckets, std::move(group));
  parts.difference = FlatBuffer(replica.parameters().size());
  sync::GradientAveragingOptions options = averaging_options(config, base, parts, false);
  options.divergence = nullptr;
  options.fault = fault_in_round(config, base.plan);
  std::optional<sync::QuorumReplay> replay;
  if (!config.train.replay.empty())
    replay.emplace(metrics::read_decisions(config.train.replay, sync::kQuorumDecisions),
                   static_cast<std::size_t>(base.comm.size()));
  parts.synchronizer = sync::make_quorum_rounds(
      {.comm = base.comm,
       .mean = sync::make_gradient_averaging(base.comm, *parts.collective, memory,
                                             std::move(base.messages.buckets), replica.layout(),
                                             parts.difference.span(), options),
       .senders = parts.quorum->senders,
       .memory = memory,
       .parameters = replica.parameters(),
       .difference = parts.difference.span(),
       .layout = replica.layout()},
      {.local_steps = *s.local_steps.count,
       .delay = s.delay.count.value_or(sync::automatic_delay(*s.local_steps.count)),
       .quorum = s.quorum,
       .grace_seconds = s.grace_seconds,
       .outer = outer_step(config),
       .total_steps = base.plan.total_steps,
       .next_pause = [plan = base.plan](StepId done) { return plan.next_pause(done); },
       .timeout_seconds = s.timeout_seconds,
       .replay = std::move(replay)});
}

std::unique_ptr<sync::Synchronizer> build_lazy_averaging(const config::RunConfig& config,
                                                         const SyncBase& base) {
  const auto& s = config.synchronization;
  return sync::make_lazy_averaging(
      {.comm = base.comm,
       .parameters = base.replica.parameters(),
       .gradient = base.replica.gradient(),
       .layout = base.replica.layout(),
       .divergence = &base.divergence},
      {.rule = {.bits = static_cast<unsigned>(s.laq_bits),
                .history = s.laq_history,
                .weight = s.laq_weight,
                .silence = s.laq_silence},
       .weight_decay = static_cast<float>(config.optimizer.weight_decay),
       .total_steps = base.plan.total_steps,
       .fault = base.plan.fault});
}

}  // namespace

// DGC-like schedules of density are for gradients; every other codec keeps its own.
SyncParts build_gossip_averaging(const config::RunConfig& config, const SyncBase& base) {
  model::Replica& replica = base.replica;
  codec::Compressor& compressor = *base.messages.compressor;
  SyncParts parts;
  parts.gossip = build_gossip(config, base.comm, compressor, base.messages.buckets,
                              replica.parameters().size(), replica.weight_rounding());
  const Gossip& gossip = *parts.gossip;
  if (gossip.pairs != nullptr) return build_asynchronous_gossip(config, base, std::move(parts));
  parts.adaptation = make_adaptation(config, base.comm, compressor);
  const std::uint64_t local_steps = *config.synchronization.local_steps.count;
  const std::uint64_t delay =
      config.synchronization.delay.count.value_or(sync::automatic_delay(local_steps));
  const bool periodic = local_steps > 1 || delay > 0;
  parts.synchronizer = sync::make_gossip_averaging(
      {.comm = base.comm,
       .mixer = *gossip.mixer,
       .direction = periodic ? nullptr : gossip.direction.get(),
       .direction_mixer = gossip.direction_mixer.get(),
       .push_sum = gossip.push_sum.get(),
       .plan = base.messages.buckets,
       .parameters = replica.parameters(),
       .gradient = replica.gradient()},
      {.run_seed = config.seed,
       .consensus_step = gossip.consensus_step,
       .damping = gossip.damping,
       .combine_first =
           delay > 0 || config.synchronization.order == sync::Order::combine_then_adapt,
       .overlap = config.synchronization.overlap && base.communication_thread,
       .delayed = delay > 0,
       .lossy = !compressor.properties().lossless,
       .density = {},
       .fault = fault_in_round(config, base.plan),
       .timeline = base.timeline,
       .adaptation = parts.adaptation.get(),
       .total_steps = base.plan.total_steps / local_steps});
  if (!periodic) return parts;
  parts.synchronizer = sync::make_periodic_gossip(
      {.gossip = std::move(parts.synchronizer),
       .direction = gossip.direction.get(),
       .parameters = replica.parameters(),
       .gradient = replica.gradient()},
      {.local_steps = local_steps, .delay = delay, .total_steps = base.plan.total_steps});
  return parts;
}

SyncParts build_averaging(const config::RunConfig& config, const SyncBase& base) {
  SyncParts parts;
  if (config.synchronization.algorithm->lazy) {
    parts.synchronizer = build_lazy_averaging(config, base);
    return parts;
  }
  if (!config.synchronization.algorithm->averages()) {
    parts.synchronizer = std::make_unique<sync::NoSynchronizer>();
    return parts;
  }
  MessageParts& messages = base.messages;
  const bool by_collective = base.simulation == nullptr && config.synchronization.quorum == 0;
  if (by_collective) {
    parts.collective = make_collective(config, base.comm, *messages.compressor,
                                       messages.memory != nullptr, messages.buckets);
    average_exact_grades(base, parts);
  }
  // Whether memory is shared tells what grades cost.
  parts.adaptation = messages.compressor->mixed_grades() != nullptr
                         ? build_grade_adaptation(config, base)
                         : make_adaptation(config, base.comm, *messages.compressor);
  if (base.simulation != nullptr) {
    parts.synchronizer = build_simulated_averaging(
        config, *messages.compressor, std::move(messages.buckets), base.replica,
        averaging_options(config, base, parts, false), *base.simulation);
    return parts;
  }
  if (config.synchronization.quorum > 0) {
    build_quorum_rounds(config, base, parts);
    return parts;
  }
  if (config.synchronization.algorithm->averages_models) {
    build_local_sgd(config, base, parts);
    return parts;
  }
  share_memory(base, *parts.collective, base.replica.gradient_memory());
  sync::GradientAveragingOptions options =
      averaging_options(config, base, parts, base.communication_thread);
  options.profiles = true;
  parts.encoding = choose_encoder(config, base, parts.collective.get());
  options.encoder = parts.encoding.encoder.get();
  options.leave_on_device = [&replica = base.replica](bool leave) {
    replica.leave_gradient_on_device(leave);
  };
  parts.synchronizer = sync::make_gradient_averaging(
      base.comm, *parts.collective, messages.memory.get(), std::move(messages.buckets),
      base.replica.layout(), base.replica.gradient(), options);
  return parts;
}

}  // namespace eqt::setup
