#include "setup/build_gossip.hpp"

#include <fmt/format.h>

#include <array>

#include "config/gossip_checks.hpp"
#include "core/error.hpp"
#include "gossip/consensus_step.hpp"
#include "setup/agree_on_topology.hpp"
#include "theory/paper_volume.hpp"
#include "topology/spectrum.hpp"

namespace eqt::setup {
namespace {

using topology::Topology;

/// Gamma far above the default: what contracts in pure averaging ends at two to five times it.
constexpr double kFarAbove = 2.5;

void require_doubly_stochastic(const std::string& algorithm, const Topology& topology) {
  for (StepId step = 0; step < topology.period(); ++step) {
    if (topology.at(step).is_doubly_stochastic()) continue;
    const char* instead = algorithm == "choco-sgd"      ? "quant-sgp"
                          : algorithm == "deep-squeeze" ? "sparse-push"
                                                        : "sgp";
    fail(Kind::usage,
         "synchronization.algorithm {}: expected weights whose rows and columns sum to 1, found "
         "rows that do not in the {}; take the algorithm {} or, on an undirected graph, "
         "synchronization.topology.weights \"metropolis\"",
         algorithm, topology.name(), instead);
  }
}

/// Tang et al. 2018, assumption 1.
void require_d2_weights(const Topology& topology) {
  constexpr std::string_view kInstead =
      "synchronization.topology.kind \"star\" or \"complete\", an undirected ring of an odd number "
      "of ranks, or the algorithm gradient-tracking";
  if (!topology.is_static() || !topology.at(0).is_symmetric())
    fail(Kind::usage,
         "synchronization.algorithm d2: expected symmetric weights that do not change, found the "
         "{}; take {}",
         topology.name(), kInstead);
  // Rings of an even number of ranks have -1/3 itself, on either side of it by rounding.
  constexpr double kRounding = 1e-9;
  const double smallest = topology::smallest_eigenvalue(topology.at(0));
  if (smallest > -1.0 / 3 + kRounding) return;
  fail(Kind::usage,
       "synchronization.algorithm d2: expected weights whose eigenvalues lie above -1/3, found "
       "{:.4f} in the {} of {} ranks; take {}",
       smallest, topology.name(), topology.ranks(), kInstead);
}

/// Push-sum's weights take one step where AdaGossip's values take each their own.
void require_equal_steps(const Topology& topology) {
  for (StepId step = 0; step < topology.period(); ++step) {
    if (topology.at(step).is_doubly_stochastic()) continue;
    fail(Kind::usage,
         "synchronization.adaptive_step: expected weights whose rows and columns sum to 1, found "
         "rows that do not in the {}; leave it out, or take another kind of graph",
         topology.name());
  }
}

void check_topology_fits(const config::RunConfig& config, const Topology& topology) {
  const std::string& algorithm = config.synchronization.algorithm;
  const config::GossipTraits traits = config::gossip_traits(algorithm);
  if (traits.asynchronous) return;  // no weights; assign_role() has conditions of its own
  if (!traits.push_sum) require_doubly_stochastic(algorithm, topology);
  if (algorithm == "d2") require_d2_weights(topology);
  if (config.synchronization.adaptive_step) require_equal_steps(topology);
  if (traits.public_copies && !topology.is_static())
    fail(Kind::usage,
         "synchronization.algorithm {}: expected a graph that does not change, because it keeps a "
         "sum over its neighbours' public copies, found the {}; take a static "
         "synchronization.topology.kind or the algorithm {}",
         algorithm, topology.name(), traits.push_sum ? "sparse-push" : "deep-squeeze");
}

bool is_symmetric(const Topology& topology) {
  for (StepId step = 0; step < topology.period(); ++step)
    if (!topology.at(step).is_symmetric()) return false;
  return true;
}

/// The default gamma of an algorithm for a compressor of this contraction.
double default_step(const config::RunConfig& config, double contraction,
                    const codec::Properties& properties, bool symmetric) {
  const config::GossipTraits traits = config::gossip_traits(config.synchronization.algorithm);
  if (config.synchronization.adaptive_step) return 1;
  if (traits.public_copies) return gossip::choco_step(contraction, properties, symmetric);
  const std::string& algorithm = config.synchronization.algorithm;
  if (algorithm == "deep-squeeze" || algorithm == "sparse-push")
    return gossip::squeeze_step(contraction, properties, symmetric);
  return 1;
}

void choose_step(const config::RunConfig& config, comm::Communicator& comm,
                 const codec::Compressor& compressor,
                 const std::vector<pipeline::FusionBucket>& plan, Gossip& gossip) {
  const gossip::Quality quality = gossip::measure_quality(compressor, plan, config.seed);
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
        gossip::choco_step(shared[1], compressor.properties(), is_symmetric(*gossip.topology)));
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

std::unique_ptr<gossip::Mixer> make_mixer(const config::RunConfig& config,
                                          const gossip::MixerParts& parts, std::size_t count,
                                          const Gossip& gossip) {
  const std::string& algorithm = config.synchronization.algorithm;
  if (config::gossip_traits(algorithm).public_copies) {
    return gossip::make_choco_mixer(parts, count,
                                    {.adaptive_step = config.synchronization.adaptive_step,
                                     .most_adaptive_step = gossip.most_adaptive_step,
                                     .resync_every = config.synchronization.resync_every});
  }
  if (algorithm == "deep-squeeze" || algorithm == "sparse-push")
    return gossip::make_squeeze_mixer(parts, count);
  return gossip::make_plain_mixer(parts);
}

/// Averaging in pairs instead of mixing.
void build_pairs(const config::RunConfig& config, const gossip::MixerParts& parts,
                 std::size_t count, Gossip& gossip) {
  gossip.shared_model = std::make_unique<gossip::SharedModel>(parts.plan, count);
  gossip.pairs = std::make_unique<gossip::PairwiseAveraging>(
      gossip::PairwiseParts{parts.comm, parts.compressor, parts.plan, *gossip.shared_model},
      gossip::PairwiseOptions{.run_seed = config.seed, .consensus_step = gossip.consensus_step});
}

}  // namespace

std::unique_ptr<gossip::Direction> make_direction(const config::RunConfig& config,
                                                  std::size_t count) {
  const auto decay = static_cast<float>(config.optimizer.weight_decay);
  if (config.synchronization.algorithm == "d2") return gossip::make_d2(count, decay);
  if (config.synchronization.algorithm == "gradient-tracking")
    return gossip::make_gradient_tracking(count, decay);
  if (config.optimizer.momentum_kind != "quasi-global") return nullptr;
  const auto momentum = static_cast<float>(config.optimizer.momentum);
  return gossip::make_quasi_global_momentum(count, {.beta = momentum,
                                                    .mu = momentum,
                                                    .nesterov = config.optimizer.nesterov,
                                                    .weight_decay = decay});
}

std::unique_ptr<Gossip> build_gossip(const config::RunConfig& config, comm::Communicator& comm,
                                     const codec::Compressor& compressor,
                                     const std::vector<pipeline::FusionBucket>& plan,
                                     std::size_t count) {
  auto gossip = std::make_unique<Gossip>();
  gossip->topology = agree_on_topology(config.synchronization.topology, comm);
  const config::GossipTraits traits = config::gossip_traits(config.synchronization.algorithm);
  comm.agree_after([&] {
    check_topology_fits(config, *gossip->topology);
    if (traits.asynchronous) gossip->role = gossip::assign_role(*gossip->topology, comm.rank());
  });
  choose_step(config, comm, compressor, plan, *gossip);
  comm.agree_after([&] {
    const gossip::MixerParts parts{comm, compressor, *gossip->topology, plan};
    if (traits.asynchronous) return build_pairs(config, parts, count, *gossip);
    gossip->mixer = make_mixer(config, parts, count, *gossip);
    gossip->direction = make_direction(config, count);
    if (gossip->direction != nullptr && !gossip->direction->mixed().empty())
      gossip->direction_mixer = make_mixer(config, parts, count, *gossip);
    if (traits.push_sum)
      gossip->push_sum = std::make_unique<gossip::PushSum>(*gossip->topology, comm.rank(), count);
  });
  return gossip;
}

std::optional<std::uint64_t> paper_sent_bytes(const config::RunConfig& config, const Layout& layout,
                                              StepId steps) {
  const std::string& algorithm = config.synchronization.algorithm;
  const config::GossipTraits traits = config::gossip_traits(algorithm);
  if (!traits.mixes || traits.asynchronous || algorithm == "gradient-tracking") return {};
  const auto& compressor = config.compressor;
  const StepId rounds = steps / config.synchronization.local_steps;
  if (compressor.name == codec::kNone) return rounds * theory::paper_bytes_per_step(layout, {});
  if (compressor.name == codec::kTopK && compressor.value_bits == 32)
    return rounds * theory::paper_bytes_per_step(layout, compressor.density);
  return {};
}

}  // namespace eqt::setup
