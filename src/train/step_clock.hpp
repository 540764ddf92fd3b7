// SPDX-License-Identifier: Apache-2.0
// What the phases of a step take, as an adaptation wants to know them.

#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "collective/adaptation.hpp"
#include "core/clock.hpp"
#include "core/thread_clock.hpp"

namespace eqt::train {

/// begin() before forward, slice_ready() after each slice, bucket_ready() when a bucket is
/// complete, computed() after backward, end() after the last message; communicate() on the thread
/// that exchanges, before it works.
class StepClock {
 public:
  /// @param buckets of the plan
  /// @param used false: nobody asks, and no thread's clock is read
  StepClock(std::size_t buckets, bool used) : used_(used), ready_(buckets) {}

  void begin() {
    step_.restart();
    first_slice_ = 0;
    if (!used_) return;
    delay_.restart();
    communication_.reset();
  }
  void communicate() {
    if (used_) communication_.start();
  }
  void slice_ready() {
    if (first_slice_ == 0) first_slice_ = step_.seconds();
  }
  void bucket_ready(std::uint32_t bucket) { ready_[bucket] = step_.seconds(); }
  void computed() {
    if (!used_) return;
    // Backward has begun a little before its first slice is ready.
    now_.forward = first_slice_;
    now_.backward = step_.seconds() - first_slice_;
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

  /// After end() of an observed step.
  collective::StepSeconds take_seconds() {
    collective::StepSeconds result = now_;
    if (!recent_.empty()) {
      result.forward = median(&collective::StepSeconds::forward);
      result.backward = median(&collective::StepSeconds::backward);
      result.delayed = median(&collective::StepSeconds::delayed);
      result.communicating = median(&collective::StepSeconds::communicating);
      result.all = median(&collective::StepSeconds::all);
    }
    if (!only_observed_) recent_.clear();
    result.ready = ready_;
    return result;
  }

 private:
  // Steps that are remembered, where all are observed and where others are.
  static constexpr std::size_t kFirst = 3, kMost = 32;

  double median(double collective::StepSeconds::*part) const {
    std::vector<double> values;
    for (const collective::StepSeconds& step : recent_) values.push_back(step.*part);
    const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
    std::ranges::nth_element(values, middle);
    return *middle;
  }

  const bool used_;
  collective::StepSeconds now_;
  std::uint64_t steps_ = 0;
  bool only_observed_ = true;                    // so far
  std::vector<collective::StepSeconds> recent_;  // steps that seconds are medians of
  Stopwatch step_;
  DelayStopwatch delay_;
  OtherWorkStopwatch communication_;
  double first_slice_ = 0;
  std::vector<double> ready_;
};

}  // namespace eqt::train
