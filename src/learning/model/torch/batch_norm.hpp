// SPDX-License-Identifier: Apache-2.0
// Batch normalization, the residual sum and ReLU as one operation on channels-last images, and what
// range normalization shares with it: normalization by statistics of each channel over the batch.
//
// Source   S. Ioffe, C. Szegedy, ICML 2015, arXiv:1502.03167, algorithm 1; He et al., CVPR 2016
// Why      convolutions of a small network take four fifths of a step; the three memory-bound
//          passes of the separate operations (and their gradients) take most of the rest
// Numbers  statistics in float32 per block of rows, combined in float64 in a fixed order: the same
//          for every number of threads
// Differs  from torch::nn::BatchNorm2d: float32 on the CPU only, always affine and tracking, no
//          second derivatives

#pragma once

#include <torch/nn/pimpl.h>
#include <torch/types.h>

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "model/norm_kernels.hpp"
#include "model/torch/norm_blocks.hpp"
#include "model/torch/normalization.hpp"

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

/// Normalizes by running statistics, through which no gradient goes, nor to weight and bias.
at::Tensor normalize_frozen(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                            at::TensorList residual, const ChannelStatistics& statistics,
                            bool relu);

/// Parameters and buffers have BatchNorm2d's names. In training mode it normalizes by the batch and
/// updates the running statistics. In evaluation mode it normalizes by the running statistics, and
/// only without gradients.
class BatchNormImpl : public Normalization {
 public:
  explicit BatchNormImpl(std::int64_t channels);

  void track(double share) override { share_ = share; }
  void keep_above(double epsilon) override { epsilon_ = epsilon; }
  bool keep_statistics() override { return keeps_statistics_ = true; }

 private:
  at::Tensor apply(const at::Tensor& x, at::TensorList residual, bool relu) override;
  at::Tensor traceable(const at::Tensor& x) const override;
  at::Tensor by_torch(const at::Tensor& x) override;
  void describe_running(const ChannelStatistics& statistics) const;
  // Updates the running statistics, too.
  void describe_batch(const at::Tensor& x, const ChannelStatistics& statistics);

  at::Tensor weight_, bias_;               // (c)
  at::Tensor running_mean_, running_var_;  // (c)
  at::Tensor batches_;                     // () int64
  double share_ = kBatchNormMomentum;      // of the newest batch in running values
  double epsilon_ = kNormEpsilon;
  bool keeps_statistics_ = false;
};
TORCH_MODULE(BatchNorm);

}  // namespace eqt::model
