// SPDX-License-Identifier: Apache-2.0
// Normalization by statistics of each channel over the batch, fused with the residual sum and ReLU.
// Batch and range normalization share it.

#pragma once

#include <torch/types.h>

#include <cstdint>
#include <span>
#include <vector>

#include "model/norm_kernels.hpp"
#include "model/torch/norm_blocks.hpp"

namespace eqt::model {

/// The statistics of each channel: rows of a (4, c) tensor, which forward passes to backward.
class ChannelStatistics {
 public:
  explicit ChannelStatistics(at::Tensor t)
      : tensor_(std::move(t)), channels_(static_cast<std::size_t>(tensor_.size(1))) {}
  explicit ChannelStatistics(std::int64_t channels)
      : ChannelStatistics(at::empty({4, channels}, at::kFloat)) {}

  std::size_t channels() const { return channels_; }
  std::span<float> mean() const { return row(0); }
  std::span<float> scale() const { return row(1); }    // weight * inverse
  std::span<float> shift() const { return row(2); }    // bias
  std::span<float> inverse() const { return row(3); }  // factor of differences from the mean
  ChannelMap map() const { return {mean(), scale(), shift()}; }
  const at::Tensor& tensor() const { return tensor_; }

  void set(std::size_t channel, double mean_value, double inverse_value, float weight,
           float bias) const {
    mean()[channel] = static_cast<float>(mean_value);
    scale()[channel] = static_cast<float>(weight * inverse_value);
    shift()[channel] = bias;
    inverse()[channel] = static_cast<float>(inverse_value);
  }

 private:
  std::span<float> row(std::size_t i) const {
    return values(tensor_).subspan(i * channels_, channels_);
  }

  at::Tensor tensor_;
  std::size_t channels_;
};

struct ChannelMoments {
  std::vector<double> mean;     // (c)
  std::vector<double> squares;  // (c) sum of squared differences from the mean
};

/// Adds up the blocks' moments, which it reads from `partials`.
ChannelMoments combine_moments(const RowBlocks& blocks, BlockSums& partials);

/// The chunks of a range normalization and the positions of their extremes.
struct RangeGradient {
  std::size_t chunks = 0;  // of the batch's pixels
  double factor = 0;       // inverse = 1 / (factor * range + epsilon)
  at::Tensor extremes;     // (chunks, 2, c) int32: row of the batch that has max, and min
};

/// y = relu(norm(x) + residual) by given statistics, without gradients.
at::Tensor normalize_channels(const at::Tensor& x, at::TensorList residual,
                              const ChannelStatistics& statistics, bool relu);

/// Normalizes with the gradient through the statistics of the batch, which are mean and variance
/// or, if `range` has chunks, mean and range.
at::Tensor normalize_batch(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                           at::TensorList residual, const ChannelStatistics& statistics,
                           const RangeGradient& range, bool relu);

}  // namespace eqt::model
