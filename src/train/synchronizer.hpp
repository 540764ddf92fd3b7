// The place in a step where ranks talk.

#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "core/layout.hpp"
#include "core/traffic.hpp"

namespace eqt::train {

struct SyncResult {
  Traffic traffic;
  /// |decoded - exact|^2 / |exact|^2 of this rank's own message, where it was measured in this
  /// step.
  std::optional<double> quantization_variance;
  /// Rank 0: one line about something that changed in this step.
  std::optional<std::string> note;

  void add(SyncResult other) {
    traffic += other.traffic;
    if (other.quantization_variance) quantization_variance = other.quantization_variance;
    if (other.note) note = std::move(other.note);
  }
};

/// Called by the trainer in every step: begin, then slice_ready once for each slice while backward
/// runs, then finish: now the gradient is what the optimizer shall apply; and after_update when it
/// has done so at learning rate `rate`: now the parameters are what the next step begins with.
class Synchronizer {
 public:
  virtual ~Synchronizer() = default;
  virtual void begin(StepId step, std::uint64_t epoch) = 0;
  virtual void slice_ready(std::size_t slice) = 0;
  virtual SyncResult finish() = 0;
  virtual SyncResult after_update(float /*rate*/) { return {}; }

  // Of Plan::asynchronous, where ranks keep no common step.

  /// Steps that all ranks together have completed since the start, as far as this one knows: at
  /// least as many as it said before.
  virtual std::uint64_t steps_of_all_ranks() { return 0; }
  /// Waits until nobody sends any more. Then every rank knows the same steps_of_all_ranks(), and
  /// collectives are allowed until the next begin(). Collective.
  virtual SyncResult end_epoch() { return {}; }
};

/// Ranks train alone.
class NoSynchronizer final : public Synchronizer {
 public:
  void begin(StepId, std::uint64_t) override {}
  void slice_ready(std::size_t) override {}
  SyncResult finish() override { return {}; }
};

}  // namespace eqt::train
