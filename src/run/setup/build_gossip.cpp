// SPDX-License-Identifier: Apache-2.0
#include "setup/build_gossip.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "core/error.hpp"
#include "setup/agree_on_topology.hpp"
#include "sync/gossip/consensus_step.hpp"
#include "theory/paper_volume.hpp"

namespace eqt::setup {
namespace {

using topology::Topology;

/// Gamma far above the default: what contracts in pure averaging ends at two to five times it.
constexpr double kFarAbove = 2.5;

/// The largest default gamma with a delay. With it, no late correction gamma (W - I) x of any
/// doubly stochastic W is larger than that of the mean of all models.
constexpr double kMostLateStep = 0.5;

/// Whether the mixing matrix of every step of the topology's period has a property.
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

void require_doubly_stochastic(const sync::AlgorithmRow& algorithm, const Topology& topology) {
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

void check_topology_fits(const config::RunConfig& config, const Topology& topology) {
  const sync::AlgorithmRow& algorithm = *config.synchronization.algorithm;
  if (algorithm.asynchronous) return;  // no weights; assign_role() has conditions of its own
  if (!algorithm.push_sum) require_doubly_stochastic(algorithm, topology);
  if (algorithm.check_topology != nullptr) algorithm.check_topology(topology);
  if (config.synchronization.adaptive_step) require_equal_steps(topology);
  if (config.synchronization.delay.count != 0u && !topology.is_static())
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
double default_step(const config::RunConfig& config, double contraction,
                    const codec::Properties& properties, bool symmetric) {
  const sync::AlgorithmRow& algorithm = *config.synchronization.algorithm;
  const double most = config.synchronization.delay.count != 0u ? kMostLateStep : 1;
  if (config.synchronization.adaptive_step || algorithm.default_step == nullptr) return most;
  return std::min(most, algorithm.default_step(contraction, properties, symmetric));
}

void choose_step(const config::RunConfig& config, comm::Communicator& comm,
                 const codec::Compressor& compressor,
                 const std::vector<pipeline::FusionBucket>& plan, Gossip& gossip) {
  const sync::Quality quality = sync::measure_quality(compressor, plan, config.seed);
  // Rank 0's, should another machine's arithmetic differ in a last bit.
  std::array<double, 2> shared = {static_cast<double>(quality.damping), quality.contraction};
  comm.broadcast(std::as_writable_bytes(std::span(shared)), 0);
  const double usual =
      default_step(config, shared[1], compressor.properties(), is_symmetric(*gossip.topology));
  const double step = config.synchronization.consensus_step.value_or(usual);
  gossip.consensus_step = static_cast<float>(step);
  gossip.damping = static_cast<float>(shared[0]);
  if (compressor.properties().lossless) return;
  if (!config.synchronization.consensus_step) {
    // Whatever the values' size, no step is above one that contracts.
    gossip.most_adaptive_step = static_cast<float>(
        sync::choco_step(shared[1], compressor.properties(), is_symmetric(*gossip.topology)));
    gossip.note =
        fmt::format("synchronization.consensus_step is {:.3g}: {} keeps {:.3g} of what it is given",
                    step, codec::codec_name(compressor.id()), shared[1]);
  } else if (step > kFarAbove * usual) {
    gossip.note = fmt::format(
        "synchronization.consensus_step {:.3g} may not contract with {}, which keeps {:.3g} of "
        "what it is given; \"auto\" would take {:.3g}",
        step, codec::codec_name(compressor.id()), shared[1], usual);
  }
}

std::unique_ptr<sync::Mixer> make_mixer(const config::RunConfig& config,
                                        const sync::MixerParts& parts, std::size_t count,
                                        const Gossip& gossip, WeightRounding* network) {
  return config.synchronization.algorithm->make_mixer(
      parts, count,
      {.adaptive_step = config.synchronization.adaptive_step,
       .most_adaptive_step = gossip.most_adaptive_step,
       .resync_every = config.synchronization.resync_every,
       .events = {.threshold = config.synchronization.event_threshold,
                  .silence = config.synchronization.event_silence},
       .network = network});
}

/// Averaging in pairs instead of mixing.
void build_pairs(const config::RunConfig& config, const sync::MixerParts& parts, std::size_t count,
                 Gossip& gossip) {
  gossip.shared_model = std::make_unique<sync::SharedModel>(parts.plan, count);
  gossip.pairs = std::make_unique<sync::PairwiseAveraging>(
      sync::PairwiseParts{parts.comm, parts.compressor, parts.plan, *gossip.shared_model},
      sync::PairwiseOptions{.run_seed = config.seed, .consensus_step = gossip.consensus_step});
}

}  // namespace

std::unique_ptr<sync::Direction> make_direction(const config::RunConfig& config,
                                                std::size_t count) {
  const auto decay = static_cast<float>(config.optimizer.weight_decay);
  const sync::AlgorithmRow& algorithm = *config.synchronization.algorithm;
  if (algorithm.make_direction != nullptr) return algorithm.make_direction(count, decay);
  if (config.optimizer.momentum_kind == sync::MomentumKind::local) return nullptr;
  const auto momentum = static_cast<float>(config.optimizer.momentum);
  return sync::make_quasi_global_momentum(count, {.beta = momentum,
                                                  .mu = momentum,
                                                  .nesterov = config.optimizer.nesterov,
                                                  .weight_decay = decay});
}

std::unique_ptr<Gossip> build_gossip(const config::RunConfig& config, comm::Communicator& comm,
                                     const codec::Compressor& compressor,
                                     const std::vector<pipeline::FusionBucket>& plan,
                                     std::size_t count, WeightRounding* network) {
  auto gossip = std::make_unique<Gossip>();
  gossip->topology = agree_on_topology(config.synchronization.topology, comm);
  const sync::AlgorithmRow& algorithm = *config.synchronization.algorithm;
  comm.agree_after([&] {
    check_topology_fits(config, *gossip->topology);
    if (algorithm.asynchronous) gossip->role = sync::assign_role(*gossip->topology, comm.rank());
  });
  choose_step(config, comm, compressor, plan, *gossip);
  comm.agree_after([&] {
    const sync::MixerParts parts{comm, compressor, *gossip->topology, plan};
    if (algorithm.asynchronous) return build_pairs(config, parts, count, *gossip);
    const bool sends_weights = config.synchronization.network_weights;
    EQT_CHECK(!sends_weights || network != nullptr, "{} without 8-bit weights",
              config.model.name->name);
    gossip->mixer = make_mixer(config, parts, count, *gossip, sends_weights ? network : nullptr);
    gossip->direction = make_direction(config, count);
    if (gossip->direction != nullptr && !gossip->direction->mixed().empty())
      gossip->direction_mixer = make_mixer(config, parts, count, *gossip, nullptr);
    if (algorithm.push_sum)
      gossip->push_sum = std::make_unique<sync::PushSum>(*gossip->topology, comm.rank(), count);
  });
  return gossip;
}

std::optional<std::uint64_t> paper_sent_bytes(const config::RunConfig& config, const Layout& layout,
                                              StepId steps) {
  const sync::AlgorithmRow& algorithm = *config.synchronization.algorithm;
  if (!algorithm.mixes || algorithm.asynchronous || algorithm.mixes_direction) return {};
  const auto& compressor = config.compressor;
  const StepId rounds = steps / *config.synchronization.local_steps.count;
  if (compressor.name == codec::kNone) return rounds * theory::paper_bytes_per_step(layout, {});
  if (compressor.name == codec::kTopK && compressor.value_bits == 32)
    return rounds * theory::paper_bytes_per_step(layout, compressor.density);
  return {};
}

}  // namespace eqt::setup
