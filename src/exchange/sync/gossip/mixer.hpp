// SPDX-License-Identifier: Apache-2.0
// Gossip: a rank's model moves towards those of its neighbours.

#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string_view>

#include "codec/compressor.hpp"
#include "comm/communicator.hpp"
#include "core/layout.hpp"
#include "core/rounded_rows.hpp"
#include "core/saved_state.hpp"
#include "core/task.hpp"
#include "core/traffic.hpp"
#include "pipeline/engine.hpp"
#include "pipeline/plan.hpp"
#include "topology/topology.hpp"

namespace eqt::sync {

using pipeline::FusionBucket;

/// Called with the values to be encoded and their bucket, whose segments are relative to its begin.
using Observer = std::function<void(const FusionBucket&, std::span<const float>)>;

/// The parameters of a call besides the values.
struct MixContext {
  std::uint64_t run_seed = 0;
  StepId step = 0;
  float consensus_step = 1;            // gamma, in (0, 1]
  float damping = 1;                   // factor of messages in public copies and errors
  std::optional<double> density;       // of sparse compressors in this step
  std::size_t slot = 0;                // scratch memory to use, below pipeline::kMaxSlots
  std::uint32_t round = 0;             // distinguishes messages of a step that mixes twice
  bool measure = false;                // fill MixResult::message
  const Observer* observer = nullptr;  // of compressed messages; null: none
};

/// Squared norms, summed over the buckets of a step: the error of this rank's messages. Zero if it
/// was not measured.
struct MessageError {
  double error = 0;  // |decoded - exact|^2
  double exact = 0;  // |exact|^2
};

/// The results of mixing besides the values.
struct MixResult {
  Traffic traffic;  // without bytes, messages and transfer_seconds, which the engine counts
  MessageError message;
};

/// Slices of a model that were sent in all rounds, and that were left out.
struct SliceCounts {
  std::uint64_t sent = 0, left_out = 0;
};

/// One kind of mixing, with its memory.
///
/// If the columns of the step's mixing matrix W sum to 1, the mean of the values over ranks does
/// not change, with any compressor.
class Mixer {
 public:
  virtual ~Mixer() = default;
  virtual std::string_view name() const noexcept = 0;

  /// Called before the first mix. All ranks have this `model`, so it is not sent.
  /// @param context of the first step
  virtual void start(const MixContext& /*context*/, std::span<const float> /*model*/) {}

  /// Called at the beginning of a step that mixes, before the gradient is computed.
  /// @param model  what mix() will be given, in the order combine-then-adapt
  virtual void begin(const MixContext& /*context*/, std::span<const float> /*model*/) {}

  /// Called at its end.
  virtual void end() {}

  /// Called right before the buckets of a step are mixed, on the thread that mixes them.
  /// @param model what mix() will be given
  virtual void prepare(const MixContext& /*context*/, std::span<const float> /*model*/) {}

  /// Mixes the bucket's part of the flat buffer `model` in place. Pauses while messages are
  /// exchanged, so that several buckets can be processed at the same time, each with its own slot.
  /// All arguments must exist until the task is done. Collective among neighbours.
  virtual Task mix(const FusionBucket& bucket, const MixContext& context, std::span<float> model,
                   MixResult& result) = 0;

  /// Returns how many buckets may be processed at the same time.
  virtual std::size_t slots() const noexcept { return pipeline::kMaxSlots; }

  /// Returns the counts of this rank since the start; unset: all slices are always sent.
  virtual std::optional<SliceCounts> slice_counts() const { return {}; }

  /// Visits public copies and errors. If the number of ranks changes, all ranks start() again with
  /// the same model.
  virtual void visit_state(StateVisitor&) {}
};

/// Parts that all mixers need; everything outlives the mixer.
struct MixerParts {
  comm::Communicator& comm;
  const codec::Compressor& compressor;
  const topology::Topology& topology;
  std::span<const FusionBucket> plan;
};

/// Event-triggered gossip: slices that have not moved much are left out of messages.
struct EventOptions {
  double threshold = 0;         // kappa, in typical movements of a slice in a round; 0 = off
  std::uint64_t silence = 100;  // a slice is sent at least once in so many rounds; 1: in every one
};

/// Options of mixers; each reads those that it has.
struct MixerOptions {
  /// CHOCO: AdaGossip (Aketi et al. 2024): gamma is smaller for values with large corrections.
  /// Because it differs by value, the mean is kept only approximately.
  bool adaptive_step = false;
  /// AdaGossip's largest step, used while corrections are smaller than gamma; the paper's is 1.
  /// With lossy compressors 1 does not contract: corrections grow until they reach gamma.
  float most_adaptive_step = 1;
  /// CHOCO: steps between exchanges of the public copies as float32, from which the running sums
  /// are computed again, without accumulated rounding errors. 0 = never.
  StepId resync_every = 0;
  EventOptions events = {};  // CHOCO
  /// DeepSqueeze, combine-then-adapt: the network whose own 8-bit weights are sent; null: none.
  WeightRounding* network = nullptr;
};

// All make_ functions have the same parameters; `count` is the number of the model's values.

/// x_i += gamma (sum_j W_ij q_j - (1 - W_ii) q_i) with q = Q(x): the gossip of D-PSGD (Lian et al.,
/// NeurIPS 2017) and, on numerators, of SGP (Assran et al., ICML 2019). Without compression and
/// with gamma = 1 it is x_i = sum_j W_ij x_j.
///
/// Compressing x itself, not a difference, leaves an error that does not vanish as ranks agree
/// (Koloskova et al., ICML 2019, scheme Q1-G): use it with compressors of small error.
std::unique_ptr<Mixer> make_plain_mixer(const MixerParts& parts, std::size_t count = 0,
                                        const MixerOptions& options = {});

/// CHOCO-Gossip (Koloskova et al., ICML 2019, algorithm 2 in its memory-efficient form): neighbours
/// keep public copies of each other's models and send q = Q(x - xh), the compressed differences.
///   xh += q;  s += sum_j W_ij q_j;  x += gamma (s + (W_ii - 1) xh)
/// where q is multiplied by its damping, if it has one. With events, q_l = 0 for slices l that are
/// not sent (EventTrigger). With push-sum it is Quantized Push-sum's (Taheri et al., ICML 2020).
/// @throws Error{usage} unless the topology is static: s is a sum over fixed neighbours
std::unique_ptr<Mixer> make_choco_mixer(const MixerParts& parts, std::size_t count,
                                        const MixerOptions& options);

/// DeepSqueeze (Tang et al. 2019): v = x + e, q = Q(v), e = v - q and
///   x_i += gamma (sum_j W_ij q_j - (1 - W_ii) q_i)
/// so that the next message includes the error of this one. With push-sum it is Sparse-Push's
/// (Aketi et al. 2021).
///
/// With MixerOptions::network, v is computed when a step begins, and the network computes the
/// gradient with the same 8-bit weights q = Q(v) that are sent; they are rounded once.
std::unique_ptr<Mixer> make_squeeze_mixer(const MixerParts& parts, std::size_t count,
                                          const MixerOptions& options = {});

}  // namespace eqt::sync
