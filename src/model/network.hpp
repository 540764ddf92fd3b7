// What the networks of this room are made of.

#pragma once

#include <torch/nn/module.h>
#include <torch/nn/pimpl.h>
#include <torch/types.h>

#include <cstdint>
#include <memory>

#include "model/normalization.hpp"

namespace eqt::model {

/// Images (n, c, h, w), channels last, to logits (n, classes).
class Network : public torch::nn::Module {
 public:
  virtual at::Tensor forward(const at::Tensor& images) = 0;
};

/// Square convolution without bias, padded by (kernel - 1) / 2.
class ConvolutionImpl : public torch::nn::Module {
 public:
  /// Draws N(0, 2 / (kernel^2 * out)) from `random`: He et al., ICCV 2015, eq. (14), by fan-out.
  ConvolutionImpl(std::int64_t in, std::int64_t out, std::int64_t kernel, std::int64_t stride,
                  at::Generator random);
  at::Tensor forward(const at::Tensor& x);

 private:
  at::Tensor weight_;  // (out, in, kernel, kernel)
  std::int64_t stride_;
  std::int64_t padding_;
};
TORCH_MODULE(Convolution);

/// x * weight' + bias.
class LinearImpl : public torch::nn::Module {
 public:
  /// Draws weight and bias uniformly from +-1 / sqrt(in), as PyTorch does.
  LinearImpl(std::int64_t in, std::int64_t out, at::Generator random);
  at::Tensor forward(const at::Tensor& x);  // (n, in) to (n, out)

 private:
  at::Tensor weight_;  // (out, in)
  at::Tensor bias_;    // (out)
};
TORCH_MODULE(Linear);

/// A residual network; He et al., CVPR 2016, arXiv:1512.03385.
struct ResNetPlan {
  std::vector<int> blocks;          // per stage; each stage after the first halves the image
  std::vector<std::int64_t> width;  // channels per stage; the stem has as many as the first
  bool bottleneck = false;          // 1x1, 3x3, 1x1 with four times the width
  bool projection = true;           // shortcut B; false: A, subsampling and zero channels
  bool large_stem = false;          // 7x7 stride 2 and max-pooling, for large images
  std::int64_t channels = 3;        // of the images
  std::int64_t classes = 10;
  NormalizationOptions normalization;
};

/// Parameters and buffers have torchvision's names. The seed alone decides the initial weights.
std::shared_ptr<Network> make_resnet(const ResNetPlan& plan, std::uint64_t seed);

}  // namespace eqt::model
