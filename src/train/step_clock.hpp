// SPDX-License-Identifier: Apache-2.0
// What the phases of a step take, as an adaptation wants to know them.

#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "collective/adaptation.hpp"
#include "core/clock.hpp"
#include "core/traffic.hpp"

namespace eqt::train {

/// begin() before forward, slice_ready() after each slice, bucket_ready() when a bucket is
/// complete, computed() after backward; waited() on the thread that exchanges.
class StepClock {
 public:
  /// @param buckets of the plan
  explicit StepClock(std::size_t buckets) : ready_(buckets) {}

  void begin() {
    step_.restart();
    first_slice_ = 0;
    waited_ = 0;
  }
  void slice_ready() {
    if (first_slice_ == 0) first_slice_ = step_.seconds();
  }
  void bucket_ready(std::uint32_t bucket) { ready_[bucket] = step_.seconds(); }
  void computed() {
    const double all = step_.seconds();
    // Backward has begun a little before its first slice is ready.
    seconds_.forward = first_slice_;
    seconds_.backward = all - first_slice_;
  }
  void waited(double seconds) { waited_ = waited_ + seconds; }

  /// After the last message. @param traffic of the step
  collective::StepSeconds seconds(const Traffic& traffic) const {
    collective::StepSeconds all = seconds_;
    all.exchange = traffic.encode_seconds + traffic.decode_seconds + waited_;
    all.ready = ready_;
    return all;
  }

 private:
  collective::StepSeconds seconds_;
  Stopwatch step_;
  double first_slice_ = 0;
  std::vector<double> ready_;
  // Written by the thread that exchanges; the other one reads it after that has ended.
  double waited_ = 0;
};

}  // namespace eqt::train
