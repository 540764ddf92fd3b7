// SPDX-License-Identifier: Apache-2.0
// The statistics of each sample for normalization by groups.

#pragma once

#include <torch/types.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "model/range_meter.hpp"
#include "model/torch/norm_blocks.hpp"

namespace eqt::model {

/// Adds up (samples, c) sums in a fixed order.
at::Tensor add_samples(std::span<const double> sums, const GroupShape& shape);

/// Mean and 1 / sqrt(variance + epsilon) of each sample's groups, for backward.
class VarianceStatistics {
 public:
  explicit VarianceStatistics(const GroupShape& shape);
  explicit VarianceStatistics(at::Tensor tensor) : tensor_(std::move(tensor)) {}

  std::span<float> mean(std::size_t sample) const { return row(2 * sample); }  // (groups)
  std::span<float> inverse(std::size_t sample) const { return row(2 * sample + 1); }
  const at::Tensor& tensor() const { return tensor_; }

 private:
  std::span<float> row(std::size_t i) const {
    const auto groups = static_cast<std::size_t>(tensor_.size(2));
    return values(tensor_).subspan(i * groups, groups);
  }

  at::Tensor tensor_;  // (n, 2, groups)
};

/// Measures one sample after another; one per thread.
class VarianceMeter {
 public:
  explicit VarianceMeter(const GroupShape& shape);
  void measure(std::span<const float> x, const VarianceStatistics& statistics, std::size_t sample);

 private:
  GroupShape shape_;
  RowBlocks blocks_;
  BlockSums partials_;
  std::vector<double> mean_;  // (groups)
};

/// 1 / (factor * range + epsilon) of each sample's groups and the positions of the chunks'
/// extremes, for backward.
class RangeStatistics {
 public:
  explicit RangeStatistics(const GroupShape& shape);
  RangeStatistics(at::Tensor inverse, at::Tensor extremes)
      : inverse_(std::move(inverse)), extremes_(std::move(extremes)) {}

  std::span<float> inverse(std::size_t sample) const;  // (groups)
  /// (groups, chunks, 2): offset in the sample of max, and of min.
  std::span<std::int32_t> extremes(std::size_t sample) const;
  const at::Tensor& inverse_tensor() const { return inverse_; }
  const at::Tensor& extremes_tensor() const { return extremes_; }

 private:
  at::Tensor inverse_;   // (n, groups)
  at::Tensor extremes_;  // (n, groups, chunks, 2) int32
};

}  // namespace eqt::model
