// SPDX-License-Identifier: Apache-2.0
// Convolutions in which each channel has a filter of its own. Private to this room.
//
// Why      LibTorch 1.13's gradient of such a convolution takes longer than all else of a step
//          together; the vector kernels (model/depthwise_kernels.hpp) take a small part of it
// Numbers  float32, in bf16 images as well, whose values are converted sample by sample; gradients
//          of filters are added over samples in float64 in a fixed order: the same for every number
//          of threads

#pragma once

#include <torch/nn/module.h>
#include <torch/nn/pimpl.h>
#include <torch/types.h>

#include <cstdint>

namespace eqt::model {

/// The sizes of a filter.
struct DepthwiseOptions {
  std::int64_t channels = 0;
  std::int64_t kernel = 3;  // odd; the image is padded by (kernel - 1) / 2
  std::int64_t stride = 1;
  double deviation = 0;  // of the initial weights, which are N(0, deviation^2)
};

class DepthwiseImpl : public torch::nn::Module {
 public:
  DepthwiseImpl(const DepthwiseOptions& options, at::Generator random);
  /// @param x  float32 or bf16 images
  /// @return images of the same type, channels last
  at::Tensor forward(const at::Tensor& x);

 private:
  at::Tensor weight_;  // (c, 1, kernel, kernel)
  std::int64_t stride_;
  std::int64_t padding_;
};
TORCH_MODULE(Depthwise);

}  // namespace eqt::model
