// SPDX-License-Identifier: Apache-2.0
// Observes a rank's own gradient before it is sent.

#pragma once

#include <cstddef>
#include <cstdint>

#include "core/layout.hpp"
#include "data/dataset.hpp"

namespace eqt::train {

/// A step of this rank that an observer may observe.
struct ObservedStep {
  StepId done = 0;          // completed steps of this rank, this one included
  std::uint64_t epoch = 0;  // from 1
  bool ends_epoch = false;  // for this rank
};

/// Called on the thread that trains: begin, then, if that returned true, slice_ready once for each
/// slice of the layout with the gradient of backward, before it is announced to the synchronizer,
/// and finish after the step's record.
class GradientObserver {
 public:
  virtual ~GradientObserver() = default;
  /// @param batch of the step; empty in an emulated run
  /// @return true to observe the gradient of this step
  virtual bool begin(const ObservedStep& step, const data::Batch& batch) = 0;
  virtual void slice_ready(std::size_t slice) = 0;
  virtual void finish() = 0;
};

}  // namespace eqt::train
