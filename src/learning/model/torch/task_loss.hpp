// SPDX-License-Identifier: Apache-2.0
// The loss of each task, and the sums of its evaluation. Private to this room.

#pragma once

#include <torch/types.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "data/batch.hpp"
#include "model/task.hpp"

namespace eqt::model {

/// Outputs are what the network returns for n samples, targets those of the batch.
class TaskLoss {
 public:
  virtual ~TaskLoss() = default;
  /// The shape that the output must have, in words; empty: it has it.
  /// @param targets undefined if there are none
  virtual std::string misfit(const at::Tensor& output, std::int64_t n,
                             const at::Tensor& targets) const = 0;
  /// Mean over the batch, to be differentiated.
  virtual at::Tensor loss(const at::Tensor& output, const at::Tensor& targets) const = 0;
  /// Computes in float64, whatever the output's type. @param n samples
  virtual Evaluation evaluate(const at::Tensor& output, const at::Tensor& targets,
                              std::size_t n) const = 0;
  /// Targets that no data set may deliver are a bug. Only integers have a range.
  virtual void check(const data::Array& /*targets*/) const {}
};

/// @param outputs see outputs_of()
std::unique_ptr<TaskLoss> make_task_loss(const TaskOptions& options, int outputs);

}  // namespace eqt::model
