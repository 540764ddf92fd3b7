// SPDX-License-Identifier: Apache-2.0
// Decentralised training from a row: what the graph must be like, the consensus step, the parts.

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "core/error.hpp"
#include "sync/algorithm_parts.hpp"
#include "sync/direction.hpp"
#include "sync/gossip/consensus_step.hpp"
#include "sync/gossip/gossip_averaging.hpp"
#include "sync/gossip/periodic_gossip.hpp"
#include "sync/gossip/push_sum.hpp"

namespace eqt::sync {
namespace {

using topology::Topology;

/// Gamma far above the default: what contracts in pure averaging ends at two to five times it.
constexpr double kFarAbove = 2.5;

/// The largest default gamma with a delay. With it, no late correction gamma (W - I) x of any
/// doubly stochastic W is larger than that of the mean of all models.
constexpr double kMostLateStep = 0.5;

/// Returns true if the mixing matrix of every step of the topology's period has a property.
bool in_every_step(const Topology& topology, bool (topology::MixingMatrix::*has)() const) {
  for (StepId step = 0; step < topology.period(); ++step)
    if (!(topology.at(step).*has)()) return false;
  return true;
}

bool is_doubly_stochastic(const Topology& topology) {
  return in_every_step(topology, &topology::MixingMatrix::is_doubly_stochastic);
}

bool is_symmetric(const Topology& topology) {
  return in_every_step(topology, &topology::MixingMatrix::is_symmetric);
}

void require_doubly_stochastic(const AlgorithmRow& algorithm, const Topology& topology) {
  if (is_doubly_stochastic(topology)) return;
  fail(Kind::usage,
       "synchronization.algorithm {}: expected weights whose rows and columns sum to 1, found rows "
       "that do not in the {}; take the algorithm {} or, on an undirected graph, "
       "synchronization.topology.weights \"metropolis\"",
       algorithm.name, topology.name(), algorithm.without_equal_sums);
}

/// Push-sum's weights take one step where AdaGossip's values take each their own.
void require_equal_steps(const Topology& topology) {
  if (is_doubly_stochastic(topology)) return;
  fail(Kind::usage,
       "synchronization.adaptive_step: expected weights whose rows and columns sum to 1, found "
       "rows that do not in the {}; leave it out, or take another kind of graph",
       topology.name());
}

void check_topology_fits(const AlgorithmRow& algorithm, const AlgorithmSettings& settings,
                         const Topology& topology) {
  if (!algorithm.push_sum) require_doubly_stochastic(algorithm, topology);
  if (algorithm.check_topology != nullptr) algorithm.check_topology(topology);
  if (settings.adaptive_step) require_equal_steps(topology);
  if (settings.rounds.delays() && !topology.is_static())
    fail(Kind::usage,
         "synchronization.delay: expected a graph that does not change for "
         "synchronization.algorithm {}, found the {}; take a static synchronization.topology.kind, "
         "or leave the delay out",
         algorithm.name, topology.name());
  if (algorithm.public_copies && !topology.is_static())
    fail(Kind::usage,
         "synchronization.algorithm {}: expected a graph that does not change, because it keeps a "
         "sum over its neighbours' public copies, found the {}; take a static "
         "synchronization.topology.kind or the algorithm {}",
         algorithm.name, topology.name(), algorithm.on_changing_graph);
}

/// The default gamma of an algorithm for a compressor of this contraction.
double default_step(const AlgorithmRow& algorithm, const AlgorithmSettings& settings,
                    double contraction, const codec::Properties& properties, bool symmetric) {
  const double most = settings.rounds.delays() ? kMostLateStep : 1;
  if (settings.adaptive_step || algorithm.default_step == nullptr) return most;
  return std::min(most, algorithm.default_step(contraction, properties, symmetric));
}

/// Owns the parts, in the order in which they depend on each other.
struct GossipOwned {
  std::unique_ptr<Mixer> mixer;
  std::unique_ptr<Direction> direction;    // may be null
  std::unique_ptr<Mixer> direction_mixer;  // may be null
  std::unique_ptr<PushSum> push_sum;       // may be null
  std::vector<FusionBucket> buckets;
};

std::unique_ptr<Mixer> make_mixer(const AlgorithmParts& parts, const AlgorithmSettings& settings,
                                  const ChosenStep& step, std::span<const FusionBucket> plan,
                                  WeightRounding* network) {
  return parts.row.make_mixer({parts.comm, parts.compressor, *parts.topology, plan},
                              parts.parameters.size(),
                              {.adaptive_step = settings.adaptive_step,
                               .most_adaptive_step = step.most_adaptive_step,
                               .resync_every = settings.resync_every,
                               .events = settings.events,
                               .network = network});
}

void make_parts(const AlgorithmParts& parts, const AlgorithmSettings& settings,
                const ChosenStep& step, GossipOwned& owned) {
  EQT_CHECK(!settings.network_weights || parts.network != nullptr, "{} without 8-bit weights",
            parts.row.name);
  owned.mixer = make_mixer(parts, settings, step, owned.buckets,
                           settings.network_weights ? parts.network : nullptr);
  owned.direction = make_direction(parts.row, settings, parts.parameters.size());
  if (owned.direction != nullptr && !owned.direction->mixed().empty())
    owned.direction_mixer = make_mixer(parts, settings, step, owned.buckets, nullptr);
  if (parts.row.push_sum)
    owned.push_sum =
        std::make_unique<PushSum>(*parts.topology, parts.comm.rank(), parts.parameters.size());
}

}  // namespace

ChosenStep choose_step(const AlgorithmParts& parts, const AlgorithmSettings& settings) {
  const codec::Compressor& compressor = parts.compressor;
  const Quality quality = measure_quality(compressor, parts.buckets, settings.run_seed);
  // Rank 0's, should another machine's arithmetic differ in a last bit.
  std::array<double, 2> shared = {static_cast<double>(quality.damping), quality.contraction};
  parts.comm.broadcast(std::as_writable_bytes(std::span(shared)), 0);
  const bool symmetric = is_symmetric(*parts.topology);
  const double usual =
      default_step(parts.row, settings, shared[1], compressor.properties(), symmetric);
  const double step = settings.consensus_step.value_or(usual);
  ChosenStep chosen{.consensus_step = static_cast<float>(step),
                    .damping = static_cast<float>(shared[0])};
  if (compressor.properties().lossless) return chosen;
  if (!settings.consensus_step) {
    // Whatever the values' size, no step is above one that contracts.
    chosen.most_adaptive_step =
        static_cast<float>(choco_step(shared[1], compressor.properties(), symmetric));
    chosen.note =
        fmt::format("synchronization.consensus_step is {:.3g}: {} keeps {:.3g} of what it is given",
                    step, codec::codec_name(compressor.id()), shared[1]);
  } else if (step > kFarAbove * usual) {
    chosen.note = fmt::format(
        "synchronization.consensus_step {:.3g} may not contract with {}, which keeps {:.3g} of "
        "what it is given; \"auto\" would take {:.3g}",
        step, codec::codec_name(compressor.id()), shared[1], usual);
  }
  return chosen;
}

BuiltAlgorithm make_gossip(AlgorithmParts parts, const AlgorithmSettings& settings) {
  parts.comm.agree_after([&] { check_topology_fits(parts.row, settings, *parts.topology); });
  const ChosenStep step = choose_step(parts, settings);
  const auto owned = std::make_shared<GossipOwned>();
  owned->buckets = std::move(parts.buckets);
  parts.comm.agree_after([&] { make_parts(parts, settings, step, *owned); });
  const StepId local_steps = settings.rounds.local_steps;
  const StepId delay = settings.rounds.delay.value_or(automatic_delay(local_steps));
  const bool periodic = local_steps > 1 || delay > 0;
  Direction* const direction = owned->direction.get();
  std::unique_ptr<Synchronizer> gossip = make_gossip_averaging(
      {.comm = parts.comm,
       .mixer = *owned->mixer,
       .direction = periodic ? nullptr : direction,
       .direction_mixer = owned->direction_mixer.get(),
       .push_sum = owned->push_sum.get(),
       .plan = owned->buckets,
       .parameters = parts.parameters,
       .gradient = parts.gradient},
      // Schedules of density are for gradients.
      {.run_seed = settings.run_seed,
       .consensus_step = step.consensus_step,
       .damping = step.damping,
       .combine_first = delay > 0 || settings.order == Order::combine_then_adapt,
       .overlap = settings.overlap,
       .delayed = delay > 0,
       .lossy = !parts.compressor.properties().lossless,
       .density = {},
       .fault = fault_in_round(parts.fault, local_steps),
       .timeline = parts.timeline,
       .adaptation = parts.adaptation,
       .total_steps = settings.rounds.total_steps / local_steps});
  if (periodic)
    gossip = make_periodic_gossip(
        {.gossip = std::move(gossip),
         .direction = direction,
         .parameters = parts.parameters,
         .gradient = parts.gradient},
        {.local_steps = local_steps, .delay = delay, .total_steps = settings.rounds.total_steps});
  return {.owned = owned,
          .synchronizer = std::move(gossip),
          .directs = direction != nullptr,
          .note = step.note};
}

}  // namespace eqt::sync
