// SPDX-License-Identifier: Apache-2.0
// Decentralised training: after its own update a rank mixes its model with those of its neighbours.

#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>

#include "adaptation/adaptation.hpp"
#include "comm/communicator.hpp"
#include "comm/fault.hpp"
#include "core/layout.hpp"
#include "pipeline/plan.hpp"
#include "sync/direction.hpp"
#include "sync/divergence.hpp"
#include "sync/gossip/mixer.hpp"
#include "sync/gossip/push_sum.hpp"
#include "sync/synchronizer.hpp"
#include "sync/timeline.hpp"

namespace eqt::sync {

struct GossipAveragingOptions {
  std::uint64_t run_seed = 1;
  float consensus_step = 1;  // gamma
  float damping = 1;         // see MixContext
  /// Combine, then adapt: the model at the beginning of the step is sent, possibly while the
  /// gradient is computed, and the update is added to the result of mixing. Otherwise adapt, then
  /// combine: the updated model is sent.
  bool combine_first = false;
  /// With combine_first, models are mixed on a communication thread, during computing.
  bool overlap = true;
  /// With combine_first: after_update() may come several steps after begin(), in between which the
  /// messages may be under way.
  bool delayed = false;
  bool lossy = false;  // measure the quantization variance every few steps
  /// Density of sparse compressors in an epoch; unset = the compressor's own.
  std::function<double(std::uint64_t epoch)> density;
  std::optional<comm::Fault> fault = {};  // happens when its bucket's mix begins
  Timeline* timeline = nullptr;           // null: nothing is noted
  /// Adapts the compressor to the encoded values; null: no adaptation. Collective in the few steps
  /// that adapt.
  adaptation::Adaptation* adaptation = nullptr;
  /// Steps of the run: the last one's result notes how many slices were sent, if some may be left
  /// out.
  StepId total_steps = 0;
};

/// The parts of gossip; all must outlive the synchronizer.
struct GossipParts {
  comm::Communicator& comm;
  Mixer& mixer;
  Direction* direction = nullptr;    // null: the optimizer has momentum and weight decay
  Mixer* direction_mixer = nullptr;  // of direction->mixed(), if there is such a buffer
  PushSum* push_sum = nullptr;       // null: models themselves are mixed
  std::span<const pipeline::FusionBucket> plan;
  std::span<float> parameters, gradient;
  const Layout* layout = nullptr;    // of the parameters; where there is a divergence
  Divergence* divergence = nullptr;  // null: a mixed buffer that is not finite ends the run
};

/// x_half = update(x); x = mix(x_half), or with combine_first x = mix(x) + (x_half - x). With
/// `delayed`, x_half is the model after several updates.
/// @pre without combine_first if the direction itself is mixed
std::unique_ptr<Synchronizer> make_gossip_averaging(const GossipParts& parts,
                                                    const GossipAveragingOptions& options);

struct AlgorithmParts;
struct AlgorithmSettings;
struct BuiltAlgorithm;

/// Makes an algorithm that mixes in a common step: with the row's mixer and direction on this
/// graph, every few steps and late where the settings say so.
/// @throws Error{usage} on every rank if the algorithm cannot work on the topology: which condition
/// is not met, and a choice that works. Collective.
BuiltAlgorithm make_gossip(AlgorithmParts parts, const AlgorithmSettings& settings);

}  // namespace eqt::sync
