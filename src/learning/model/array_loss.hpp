// SPDX-License-Identifier: Apache-2.0
// The losses of the tasks on arrays of outputs, with their gradients, in float64, as
// model/torch/task_loss.hpp computes them with LibTorch. No torch.

#pragma once

#include <span>
#include <vector>

#include "data/batch.hpp"
#include "model/task.hpp"

namespace eqt::model {

class ArrayLoss {
 public:
  /// @pre classification, multi-label or regression
  ArrayLoss(const TaskOptions& options, int outputs);

  /// Mean over the batch, and its gradient by the outputs (n, outputs).
  /// @param share  of mixup (model/task.hpp): the rest is that of the targets in reverse order
  double loss(std::span<const float> outputs, const data::Array& targets, double share,
              std::span<float> gradient) const;

  Evaluation evaluate(std::span<const float> outputs, const data::Array& targets) const;

 private:
  double classification(std::span<const float> outputs, std::span<const std::int64_t> labels,
                        double share, std::span<float> gradient) const;
  double other(std::span<const float> outputs, std::span<const float> targets,
               std::span<float> gradient) const;
  Evaluation evaluate_classes(std::span<const float> outputs,
                              std::span<const std::int64_t> labels) const;
  Evaluation evaluate_flags(std::span<const float> outputs, std::span<const float> flags) const;
  Evaluation evaluate_values(std::span<const float> outputs, std::span<const float> values) const;
  double weight_of(std::int64_t label) const;

  TaskOptions options_;
  std::size_t outputs_;
};

}  // namespace eqt::model
