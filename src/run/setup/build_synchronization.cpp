// SPDX-License-Identifier: Apache-2.0
#include "setup/build_synchronization.hpp"

#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "codec/levels/adaptive_codec.hpp"
#include "codec/mixed/mixed_grades.hpp"
#include "collective/exact_grades.hpp"
#include "core/error.hpp"
#include "device/cuda_queue.hpp"
#include "device/device_codec.hpp"
#include "metrics/run_files.hpp"
#include "setup/build_collective.hpp"
#include "setup/build_grades.hpp"
#include "setup/build_model.hpp"
#include "setup/same_everywhere.hpp"

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

/// A device encodes the gradient of one batch, which nobody changes or reads before, and the mean
/// takes its payloads.
struct Obstacle {
  bool applies;
  std::string clause;
};

std::unique_ptr<device::Queue> make_queue(const model::Placement& placement) {
  return placement.cuda ? device::make_cuda_queue(*placement.cuda)
                        : device::make_late_emulated_queue();
}

/// Empty: the device encodes.
std::string why_host_encodes(const config::RunConfig& config, const SyncBase& base,
                             const collective::Collective* collective) {
  const auto& algorithm = *config.synchronization.algorithm;
  const std::string_view compressor = config.compressor.name->name;
  const MessageParts& messages = base.messages;
  const std::array obstacles = {
      Obstacle{base.replica.device_gradient() == nullptr, "there is no network"},
      Obstacle{base.simulation != nullptr, "this process plays all ranks"},
      Obstacle{
          collective == nullptr,
          fmt::format("synchronization.algorithm {} sends no plain gradients", algorithm.name)},
      Obstacle{!device::has_kernels(*messages.compressor),
               fmt::format("compressor {} has no kernels for devices", compressor)},
      Obstacle{!device::encodes_sooner(*messages.compressor),
               fmt::format("compressor {} is slower on devices", compressor)},
      Obstacle{collective != nullptr && !collective->own_parts(messages.buckets.front()),
               fmt::format("collective {} takes no messages that were encoded before",
                           collective == nullptr ? "none" : collective->name())},
      Obstacle{messages.memory != nullptr && messages.memory->residual().empty(),
               "what ranks remember of gradients is no plain residual"},
      Obstacle{config.synchronization.feedback_decay != 1,
               "synchronization.feedback_decay multiplies the residual on the host"},
      Obstacle{config::corrects_momentum(config, messages.compressor->properties()),
               "synchronization.momentum_correction accumulates on the host"},
      Obstacle{config.compressor.small_tensors == codec::SmallTensors::int8,
               "compressor.small_tensors int8 is encoded on the host"},
      Obstacle{config.train.accumulate > 1, "train.accumulate adds gradients on the host"},
      Obstacle{!base.plan.loss_weights.empty() || base.balancer != nullptr,
               "the gradients of ranks have weights"},
      Obstacle{base.divergence.recovers(), "train.on_divergence rollback mends gradients"}};
  for (const Obstacle& obstacle : obstacles)
    if (obstacle.applies) return obstacle.clause;
  return {};
}

std::vector<device::EncodedBucket> buckets_of(std::span<const pipeline::FusionBucket> plan,
                                              const collective::Collective& collective) {
  std::vector<device::EncodedBucket> buckets;
  for (const pipeline::FusionBucket& bucket : plan) {
    collective::OwnParts own = *collective.own_parts(bucket);
    buckets.push_back({.begin = bucket.begin,
                       .end = bucket.end,
                       .encoded = std::move(own.encoded),
                       .strata = std::move(own.strata),
                       .plain = std::move(own.plain)});
  }
  return buckets;
}

/// Chooses before the buckets are taken from `base`.
/// @param collective null: nothing is averaged by one
/// @throws Error{usage} if there is not enough memory
EncoderChoice choose_encoder(const config::RunConfig& config, const SyncBase& base,
                             const collective::Collective* collective) {
  if (!base.placement.encodes) return {};
  const std::string obstacle = why_host_encodes(config, base, collective);
  if (!obstacle.empty())
    return {.encoder = nullptr,
            .note = fmt::format("gradients are encoded on the host: {}", obstacle)};
  collective::GradientMemory* const memory = base.messages.memory.get();
  return {.encoder = device::make_gradient_encoder(
              {.compressor = *base.messages.compressor,
               .queue = make_queue(base.placement),
               .device_gradient = base.replica.device_gradient(),
               .gradient = base.replica.gradient(),
               .residual = memory == nullptr ? std::span<float>() : memory->residual(),
               .plain_feedback = !collective->takes_residual(),
               .rank = base.comm.rank()},
              buckets_of(base.messages.buckets, *collective)),
          .note = "gradients are encoded on the device"};
}

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
  if (outer.mixing) step.mixing = static_cast<float>(*outer.mixing);
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
                                           const optim::Schedule& schedule, const Layout& layout,
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
          .rules = update_rules(config, layout),
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
    const sync::AlgorithmSettings settings =
        algorithm_settings(config, base.plan, base.schedule, base.replica.layout(),
                           base.communication_thread, base.comm.size());
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

namespace {

struct Content {
  std::uint64_t hash = 0;  // of all weights, bit by bit
  std::size_t edges = 0;   // of all matrices
};

Content content_of(const topology::Topology& topology) {
  std::vector<std::uint64_t> words;
  Content content;
  for (StepId step = 0; step < topology.period(); ++step) {
    const topology::MixingMatrix& matrix = topology.at(step);
    content.edges += matrix.edge_count();
    for (Rank from = 0; from < matrix.ranks(); ++from) {
      words.push_back(matrix.out_neighbours(from).size());
      words.push_back(std::bit_cast<std::uint64_t>(matrix.self_weight(from)));
      for (const topology::Neighbour& to : matrix.out_neighbours(from)) {
        words.push_back(static_cast<std::uint64_t>(to.rank));
        words.push_back(std::bit_cast<std::uint64_t>(to.weight));
      }
    }
  }
  content.hash = XXH3_64bits(words.data(), words.size() * sizeof(std::uint64_t));
  return content;
}

}  // namespace

void require_same_topology(const topology::Topology& topology, comm::Communicator& comm) {
  const Content content = content_of(topology);
  const std::string about =
      fmt::format("{} of {} ranks, {} steps long, with {} edges and hash {:016x}", topology.name(),
                  topology.ranks(), topology.period(), content.edges, content.hash);
  require_same_facts({{"topology", about}}, "the graph",
                     "give every rank the same synchronization.topology and program", comm);
}

std::unique_ptr<topology::Topology> agree_on_topology(const config::TopologyConfig& config,
                                                      comm::Communicator& comm) {
  std::string text;
  comm.agree_after([&] {
    if (comm.rank() == 0 && !config.file.empty()) text = config::read_graph_file(config.file);
  });
  text = comm.broadcast(text, 0);
  std::unique_ptr<topology::Topology> topology;
  comm.agree_after([&] { topology = config::build_topology(config, comm.size(), text); });
  require_same_topology(*topology, comm);
  return topology;
}

}  // namespace eqt::setup
