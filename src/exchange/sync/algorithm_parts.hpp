// SPDX-License-Identifier: Apache-2.0
// AlgorithmRow::make builds an algorithm from the parts and settings here.

#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "adaptation/adaptation.hpp"
#include "codec/compressor.hpp"
#include "collective/collective.hpp"
#include "collective/memory.hpp"
#include "comm/communicator.hpp"
#include "comm/fault.hpp"
#include "core/flat_buffer.hpp"
#include "core/layout.hpp"
#include "core/rounded_rows.hpp"
#include "device/gradient_encoder.hpp"
#include "pipeline/plan.hpp"
#include "sync/algorithm.hpp"
#include "sync/divergence.hpp"
#include "sync/gossip/mixer.hpp"
#include "sync/lazy_averaging.hpp"
#include "sync/local_sgd.hpp"
#include "sync/quorum/quorum_replay.hpp"
#include "sync/synchronizer.hpp"
#include "sync/timeline.hpp"
#include "topology/topology.hpp"

namespace eqt::sync {

/// Holds what a config says about its algorithm, under the names of its keys. Each algorithm reads
/// its own.
struct AlgorithmSettings {
  std::uint64_t run_seed = 1;
  bool overlap = true;         // messages on a communication thread, which MPI must admit
  double timeout_seconds = 0;  // 0 = none
  /// The number of steps of the mean rank, after `done`, at which an epoch ends or all save.
  std::function<StepId(StepId done)> next_pause = {};
  /// Density in an epoch, for gradients of compressors that forget what they have sent (DGC). The
  /// others keep their own.
  std::function<double(std::uint64_t epoch)> density = {};

  // Algorithms with a direction of their own read these: what momentum accumulates, and the rates
  // and weight decays of all ranges of the model.
  MomentumKind momentum_kind = MomentumKind::local;
  float momentum = 0;
  bool nesterov = false;
  UpdateRules rules = {};
  float weight_decay = 0;  // of lazy messages, for all values

  LocalSgdPlan rounds = {};  // local steps, delays, and all steps of the run
  OuterStep outer = {};
  std::uint64_t quorum = 0;  // ranks that close a round; 0: rounds are in step
  std::optional<double> grace_seconds = {};
  std::optional<QuorumReplay> replay = {};

  // Lazy messages.
  LazyMeanOptions lazy = {};

  // Gossip; local steps and delay are those of `rounds`.
  std::optional<double> consensus_step = {};  // gamma; unset: the algorithm's default
  Order order = Order::adapt_then_combine;
  bool adaptive_step = false;
  bool network_weights = false;
  StepId resync_every = 0;
  EventOptions events = {};
};

/// Holds what a run gives its algorithm; all but `buckets` outlives what is built.
struct AlgorithmParts {
  const AlgorithmRow& row;
  comm::Communicator& comm;
  codec::Compressor& compressor;
  std::vector<pipeline::FusionBucket> buckets;
  const Layout& layout;
  std::span<float> parameters, gradient;
  FlatBuffer* gradient_memory = nullptr;           // the buffer of `gradient`, which may be shared
  collective::GradientMemory* memory = nullptr;    // null: nothing is remembered of gradients
  collective::Collective* collective = nullptr;    // null: it averages by none, or by its own
  const topology::Topology* topology = nullptr;    // of algorithms that mix
  adaptation::Adaptation* adaptation = nullptr;    // null: the compressor stays as it is
  device::GradientEncoder* encoder = nullptr;      // null: the host encodes
  std::function<void(bool)> leave_on_device = {};  // see GradientAveragingOptions
  WeightRounding* network = nullptr;               // rounds the network's weights; may be null
  Divergence* divergence = nullptr;
  Timeline* timeline = nullptr;  // null: nothing is noted
  std::optional<comm::Fault> fault = {};
};

/// An algorithm that was built.
struct BuiltAlgorithm {
  std::shared_ptr<const void> owned = {};  // what the synchronizer refers to
  std::unique_ptr<Synchronizer> synchronizer = {};
  /// It has a direction, with momentum and weight decay: the optimizer applies neither.
  bool directs = false;
  std::string collective = "none";  // the name of the one that it averages by
  std::string note = {};            // what was chosen, or a warning
};

/// Returns the direction that these settings make from gradients, including momentum; null: the
/// momentum is the optimizer's.
std::unique_ptr<Direction> make_direction(const AlgorithmRow& row,
                                          const AlgorithmSettings& settings);

/// Divides the fault's step: where a rank's messages are those of rounds of `local_steps`, rounds
/// count as steps.
std::optional<comm::Fault> fault_in_round(std::optional<comm::Fault> fault, StepId local_steps);

}  // namespace eqt::sync
