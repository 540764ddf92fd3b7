// SPDX-License-Identifier: Apache-2.0
// The interface by which ranks exchange data in a step.

#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/layout.hpp"
#include "core/saved_state.hpp"
#include "core/traffic.hpp"
#include "metrics/records.hpp"
#include "sync/mean_sketch.hpp"

namespace eqt::sync {

/// Measuring the quantization variance copies and decodes the rank's own message again; in every
/// eighth step (or exchange) that takes less than half a percent of a step.
inline constexpr StepId kVarianceEvery = 8;

struct SyncResult {
  Traffic traffic = {};
  /// |decoded - exact|^2 / |exact|^2 of the rank's own encoded values, if measured in this step.
  std::optional<double> quantization_variance = {};
  /// The sketch is of the gradients and of their applied mean, in the same steps on all ranks.
  std::optional<MeanSketch> mean_sketch = {};
  /// Rank 0: one line about something that changed in this step.
  std::optional<std::string> note = {};
  /// Rank 0: what measured times have decided (decisions.jsonl).
  std::vector<metrics::DecisionRecord> decisions = {};
  /// Rank 0: the gradients' noise, if it was observed in this step.
  std::optional<metrics::NoiseRecord> noise = {};
  /// Rank 0: when gradients are ready, once in a run.
  std::optional<metrics::ProfileRecord> profile = {};
  /// Exchanges that ended in this step, the same on all ranks; one of a part of the values counts
  /// as that part. 0: none was due; unset: one.
  std::optional<double> rounds = {};

  void add(SyncResult other) {
    traffic += other.traffic;
    if (other.quantization_variance) quantization_variance = other.quantization_variance;
    if (other.mean_sketch) mean_sketch = other.mean_sketch;
    if (other.note) note = std::move(other.note);
    decisions.insert(decisions.end(), other.decisions.begin(), other.decisions.end());
    if (other.noise) noise = std::move(other.noise);
    if (other.profile) profile = std::move(other.profile);
    if (other.rounds) rounds = rounds.value_or(0) + *other.rounds;
  }
};

/// Belongs to algorithms whose messages are under way while the trainer goes on to the next steps.
class LateExchange {
 public:
  virtual ~LateExchange() = default;
  /// True if messages are under way after a step. Then the trainer must not call MPI until settle()
  /// or a step after which this is false. The same on all ranks.
  virtual bool is_under_way() const = 0;
  /// Waits until nothing is under way. Between steps. Collective.
  virtual void settle() = 0;
  /// Throws the error of a communication thread that has failed; does not wait. Others wait for
  /// this rank's messages, so it is called while messages are under way.
  virtual void rethrow() = 0;
};

/// Belongs to algorithms whose ranks have no common step.
class OwnPace {
 public:
  virtual ~OwnPace() = default;
  /// Steps that all ranks together have completed since the start, as far as this one knows; never
  /// decreases.
  virtual std::uint64_t steps_of_all_ranks() = 0;
  /// Waits until no rank sends any more. Then steps_of_all_ranks() is the same on all ranks, and
  /// collectives are allowed until the next begin(). Collective.
  virtual SyncResult end_epoch() = 0;
  /// Steps that this rank has completed, with the same restriction.
  virtual StepId own_steps() = 0;
};

/// Belongs to algorithms that mix models with those of neighbours in a common step.
class ModelMixing {
 public:
  virtual ~ModelMixing() = default;
  /// Between steps: mixes models without a gradient and an update. `step` is the number of the
  /// round.
  virtual SyncResult mix_only(StepId step, std::uint64_t epoch) = 0;
  /// The weight of this rank's model in the mean of all models; the weights of all ranks sum to
  /// their number. Mixing preserves the mean with these weights.
  virtual double weight() const = 0;
};

/// Belongs to algorithms that one process can play for all ranks, which are called workers.
class WorkerGradients {
 public:
  virtual ~WorkerGradients() = default;
  /// Instead of Synchronizer::slice_ready(): the gradient is the next worker's, and may be
  /// overwritten afterwards. Called once per worker between begin() and finish().
  virtual void worker_ready() = 0;
};

/// Called by the trainer in every step: begin, then slice_ready once for each slice while backward
/// runs, then finish, after which the gradient is what the optimizer applies, and after_update,
/// after the update at learning rate `rate`; then the parameters are those of the next step.
class Synchronizer {
 public:
  virtual ~Synchronizer() = default;
  /// Before the first step: the parameters are those that all ranks start with.
  virtual void start() {}
  /// Before begin(): others read the gradient of this step, too, when slice_ready() is called.
  virtual void read_gradient() {}
  virtual void begin(StepId step, std::uint64_t epoch) = 0;
  virtual void slice_ready(std::size_t slice) = 0;
  virtual SyncResult finish() = 0;
  virtual SyncResult after_update(float /*rate*/) { return {}; }
  /// Bytes sent so far by the calls above, by receiver; empty if ranks average and there are no
  /// edges.
  virtual std::span<const std::uint64_t> sent_bytes_by_peer() const { return {}; }
  /// Visits the memory of synchronization. Between steps, or after OwnPace::end_epoch().
  virtual void visit_state(StateVisitor&) {}

  // Only some algorithms do these; null: this one does not.
  virtual LateExchange* late() { return nullptr; }
  virtual OwnPace* own_pace() { return nullptr; }
  virtual ModelMixing* mixing() { return nullptr; }
  virtual WorkerGradients* workers() { return nullptr; }
};

/// Ranks train alone.
class NoSynchronizer final : public Synchronizer {
 public:
  void begin(StepId, std::uint64_t) override {}
  void slice_ready(std::size_t) override {}
  SyncResult finish() override { return {}; }
};

}  // namespace eqt::sync
