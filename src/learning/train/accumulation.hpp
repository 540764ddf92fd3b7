// SPDX-License-Identifier: Apache-2.0
// Gradient accumulation: the mean gradient of several batches in one step.

#pragma once

#include <cstddef>
#include <functional>
#include <utility>
#include <vector>

#include "core/error.hpp"
#include "data/dataset.hpp"
#include "model/replica.hpp"

namespace eqt::train {

/// Adds up the gradients of the batches of a step, so that a step may see more samples than fit
/// into memory at once. Equal to one batch of all samples but for rounding, where the loss is a
/// mean over samples; layers with statistics of a batch, such as batch normalization, see each
/// batch alone.
class Accumulation {
 public:
  /// Keeps a reference. @param batches of a step, at least 1; with 1 it costs nothing
  Accumulation(model::Replica& replica, std::size_t batches);

  /// Called when a pass ends with Error{diverged}. If it returns, the pass counts as one with a
  /// loss and a gradient of zeros: the run goes back after the step. Without it the error goes on.
  void on_divergence(std::function<void(const Error&)> report) { report_ = std::move(report); }

  /// From now on the loss is multiplied by this, and so is its gradient.
  void set_weight(double weight) { weight_ = weight; }

  /// Runs all batches of the step but the last one, from `next`. @return their losses' sum
  double run_first(const std::function<const data::Batch&()>& next);

  /// Runs the last one. The replica's gradient becomes the mean over the step times the weight,
  /// each slice before it is announced.
  /// @param sum of run_first()
  /// @return the mean loss over the step times the weight
  double run_last(double sum, const data::Batch& batch, const model::SliceReady& on_ready);

 private:
  double compute(const data::Batch& batch, const model::SliceReady& on_ready);

  model::Replica& replica_;
  const std::size_t batches_;
  double weight_ = 1;
  std::vector<float> sum_;  // (d) of the gradients so far; empty with one batch
  std::function<void(const Error&)> report_;
  std::vector<bool> announced_;  // by slice
};

}  // namespace eqt::train
