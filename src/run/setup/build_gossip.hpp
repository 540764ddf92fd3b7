// SPDX-License-Identifier: Apache-2.0
// Makes the parts of decentralised training from config keys.

#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "codec/compressor.hpp"
#include "comm/communicator.hpp"
#include "config/run_config.hpp"
#include "core/layout.hpp"
#include "pipeline/plan.hpp"
#include "sync/direction.hpp"
#include "sync/gossip/mixer.hpp"
#include "sync/gossip/pair_roles.hpp"
#include "sync/gossip/pairwise.hpp"
#include "sync/gossip/push_sum.hpp"
#include "sync/gossip/shared_model.hpp"
#include "topology/topology.hpp"

namespace eqt::setup {

/// Owns the parts, in the order in which they depend on each other.
struct Gossip {
  std::unique_ptr<topology::Topology> topology;
  std::unique_ptr<sync::Mixer> mixer;
  std::unique_ptr<sync::Direction> direction;    // may be null
  std::unique_ptr<sync::Mixer> direction_mixer;  // may be null
  std::unique_ptr<sync::PushSum> push_sum;       // may be null
  // The role in asynchronous algorithms, which have no mixer; null for the others.
  sync::PairRole role;
  std::unique_ptr<sync::SharedModel> shared_model;
  std::unique_ptr<sync::PairwiseAveraging> pairs;
  float consensus_step = 1;      // the configured or the chosen gamma
  float most_adaptive_step = 1;  // see sync::MixerOptions
  float damping = 1;             // see sync::MixContext
  std::string note;              // what was chosen, or a warning; may be empty
};

/// The direction that this config makes from gradients, including momentum; null: the optimizer's
/// own momentum.
/// @param count values of the model
std::unique_ptr<sync::Direction> make_direction(const config::RunConfig& config, std::size_t count);

/// @param count    values of the model. Keeps references to compressor and plan.
/// @param network  what rounds the weights that the model computes with; may be null
/// @throws Error{usage} on every rank if the algorithm cannot work on the topology: which condition
/// is not met, and a choice that works. Collective.
std::unique_ptr<Gossip> build_gossip(const config::RunConfig& config, comm::Communicator& comm,
                                     const codec::Compressor& compressor,
                                     const std::vector<pipeline::FusionBucket>& plan,
                                     std::size_t count, WeightRounding* network);

/// What a node sends in `steps` steps of this algorithm as published tables count it, for what they
/// cover: gossip of one message a step without compression or with the largest values, their
/// indices beside. Rounds after the last step do not count. Empty: not covered, as pairs are, whose
/// exchanges follow from ranks' speeds.
std::optional<std::uint64_t> paper_sent_bytes(const config::RunConfig& config, const Layout& layout,
                                              StepId steps);

}  // namespace eqt::setup
