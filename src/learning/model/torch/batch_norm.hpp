// SPDX-License-Identifier: Apache-2.0
// Batch normalization, the residual sum and ReLU as one operation on channels-last images.
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

#include "model/torch/normalization.hpp"

namespace eqt::model {

class ChannelStatistics;

/// Parameters and buffers have BatchNorm2d's names. In training mode it normalizes by the batch and
/// updates the running statistics. In evaluation mode it normalizes by the running statistics, and
/// only without gradients.
class BatchNormImpl : public Normalization {
 public:
  explicit BatchNormImpl(std::int64_t channels);

 private:
  at::Tensor apply(const at::Tensor& x, at::TensorList residual, bool relu) override;
  at::Tensor traceable(const at::Tensor& x) const override;
  at::Tensor by_torch(const at::Tensor& x) override;
  void describe_running(const ChannelStatistics& statistics) const;
  void describe_batch(const at::Tensor& x, const ChannelStatistics& statistics);  // updates the
                                                                                  // running
                                                                                  // statistics, too

  at::Tensor weight_, bias_;               // (c)
  at::Tensor running_mean_, running_var_;  // (c)
  at::Tensor batches_;                     // () int64
};
TORCH_MODULE(BatchNorm);

}  // namespace eqt::model
