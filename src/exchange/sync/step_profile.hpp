// SPDX-License-Identifier: Apache-2.0
// When the slices of a gradient are ready, measured once in a run.

#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/layout.hpp"
#include "metrics/records.hpp"
#include "sync/step_clock.hpp"

namespace eqt::sync {

/// The profiled steps, counted from 1: memory and kernels have settled by then.
inline constexpr StepId kFirstProfiled = 20, kLastProfiled = 24;

/// Means over the profiled steps.
class StepProfile {
 public:
  /// @param layout must outlive it
  explicit StepProfile(const Layout& layout) : layout_(layout), ready_(layout.size()) {}

  /// Adds a step, if it is the next of the profiled ones. Steps that are taken again, after a
  /// rollback, count once.
  /// @param step completed before it
  /// @param clock of the step, after computed()
  /// @return after the last one
  std::optional<metrics::ProfileRecord> add(StepId step, const StepClock& clock) {
    if (step + 1 != kFirstProfiled + steps_ || step + 1 > kLastProfiled) return {};
    ++steps_;
    forward_ += clock.forward();
    backward_ += clock.backward();
    for (std::size_t i = 0; i < ready_.size(); ++i) ready_[i] += clock.slices()[i];
    if (step + 1 < kLastProfiled) return {};
    return record();
  }

 private:
  metrics::ProfileRecord record() const {
    const auto steps = static_cast<double>(steps_);
    metrics::ProfileRecord result = {.step = kLastProfiled,
                                     .steps = steps_,
                                     .forward = forward_ / steps,
                                     .backward = backward_ / steps};
    for (std::size_t i = ready_.size(); i-- > 0;)
      result.slices.push_back({.name = layout_[i].name, .ready = ready_[i] / steps});
    return result;
  }

  const Layout& layout_;
  std::uint64_t steps_ = 0;            // that were added
  double forward_ = 0, backward_ = 0;  // sums [seconds]
  std::vector<double> ready_;          // likewise, by slice
};

}  // namespace eqt::sync
