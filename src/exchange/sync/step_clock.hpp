// SPDX-License-Identifier: Apache-2.0
// A clock of a step tells what its phases take and when its gradient is ready, which is also
// recorded once in a run.

#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "adaptation/adaptation.hpp"
#include "core/clock.hpp"
#include "core/layout.hpp"
#include "core/thread_clock.hpp"
#include "metrics/records.hpp"

namespace eqt::sync {

/// begin() before forward, slice_ready() after each slice, bucket_ready() when a bucket is
/// complete, computed() after backward, end() after the last message; communicate() on the thread
/// that exchanges, before it works.
class StepClock {
 public:
  /// @param slices of the layout
  /// @param buckets of the plan
  /// @param used false: no adaptation asks, and no thread's clock is read
  StepClock(std::size_t slices, std::size_t buckets, bool used)
      : used_(used), slices_(slices), ready_(buckets) {}

  void begin() {
    step_.restart();
    any_slice_ = false;
    if (!used_) return;
    delay_.restart();
    communication_.reset();
  }
  void communicate() {
    if (used_) communication_.start();
  }
  void slice_ready(std::size_t slice) {
    moment_ = slices_[slice] = step_.seconds();
    // Backward has begun a little before its first slice is ready.
    if (!any_slice_) now_.forward = moment_;
    any_slice_ = true;
  }
  /// A bucket is ready with the slice that was ready last.
  void bucket_ready(std::uint32_t bucket) { ready_[bucket] = moment_; }
  void computed() {
    now_.backward = step_.seconds() - now_.forward;
    if (!used_) return;
    now_.delayed = delay_.seconds();
    now_.communicating = communication_.seconds();
  }
  void end(bool observed) {
    if (!used_) return;
    now_.all = step_.seconds();
    // The first step allocates. Later observed steps are left out where there are others.
    if (steps_++ == 0) return;
    if (!observed && only_observed_) recent_.clear();
    only_observed_ &= observed;
    if (observed && !only_observed_) return;
    recent_.push_back(now_);
    if (recent_.size() > (only_observed_ ? kFirst : kMost)) recent_.erase(recent_.begin());
  }

  // After computed(), of this step [seconds]: until the first slice was ready, from then on until
  // backward was over, and until each slice was ready.
  double forward() const { return now_.forward; }
  double backward() const { return now_.backward; }
  std::span<const double> slices() const { return slices_; }

  /// After end() of an observed step.
  adaptation::StepSeconds take_seconds() {
    adaptation::StepSeconds result = now_;
    if (!recent_.empty()) {
      result.forward = median(&adaptation::StepSeconds::forward);
      result.backward = median(&adaptation::StepSeconds::backward);
      result.delayed = median(&adaptation::StepSeconds::delayed);
      result.communicating = median(&adaptation::StepSeconds::communicating);
      result.all = median(&adaptation::StepSeconds::all);
    }
    if (!only_observed_) recent_.clear();
    result.ready = ready_;
    return result;
  }

 private:
  // Steps that are remembered, where all are observed and where others are.
  static constexpr std::size_t kFirst = 3, kMost = 32;

  double median(double adaptation::StepSeconds::*part) const {
    std::vector<double> values;
    for (const adaptation::StepSeconds& step : recent_) values.push_back(step.*part);
    const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
    std::ranges::nth_element(values, middle);
    return *middle;
  }

  const bool used_;
  adaptation::StepSeconds now_;
  std::uint64_t steps_ = 0;
  bool only_observed_ = true;                    // so far
  std::vector<adaptation::StepSeconds> recent_;  // steps that seconds are medians of
  Stopwatch step_;
  DelayStopwatch delay_;
  OtherWorkStopwatch communication_;
  bool any_slice_ = false;      // is ready
  double moment_ = 0;           // of the last slice that was ready
  std::vector<double> slices_;  // by slice: until it was ready
  std::vector<double> ready_;   // by bucket: until it was complete
};

/// The profiled steps, counted from 1: memory and kernels have settled by then.
inline constexpr StepId kFirstProfiled = 20, kLastProfiled = 24;

/// Means over the profiled steps tell when the slices of a gradient are ready.
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
