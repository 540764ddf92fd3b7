// What the networks of this room are made of.

#pragma once

#include <torch/nn/module.h>
#include <torch/nn/pimpl.h>
#include <torch/types.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "core/random.hpp"
#include "model/normalization.hpp"

namespace eqt::model {

/// Images (n, c, h, w), channels last, to logits (n, classes).
class Network : public torch::nn::Module {
 public:
  virtual at::Tensor forward(const at::Tensor& images) = 0;
  /// What the next batch in training mode draws its random numbers from (dropout). Networks that
  /// draw none need not listen.
  virtual void draw_from(const RandomKey& /*key*/) {}
};

struct ConvolutionShape {
  std::int64_t in = 0;
  std::int64_t out = 0;
  std::int64_t kernel = 3;
  std::int64_t stride = 1;
  std::int64_t padding = 1;
  bool bias = false;
};

/// Square convolution.
class ConvolutionImpl : public torch::nn::Module {
 public:
  /// Draws N(0, 2 / (kernel^2 * out)) from `random`: He et al., ICCV 2015, eq. (14), by fan-out.
  /// The bias starts at 0.
  ConvolutionImpl(const ConvolutionShape& shape, at::Generator random);
  /// Without bias, padded by (kernel - 1) / 2.
  ConvolutionImpl(std::int64_t in, std::int64_t out, std::int64_t kernel, std::int64_t stride,
                  at::Generator random);
  at::Tensor forward(const at::Tensor& x);

 private:
  at::Tensor weight_;  // (out, in, kernel, kernel)
  at::Tensor bias_;    // (out), or none
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

/// In training mode a value is 0 with probability `share` and 1 / (1 - share) times itself
/// otherwise; in evaluation mode it stays. N. Srivastava et al., JMLR 15 (2014), section 4, with
/// the scaling moved from evaluation to training.
class DropoutImpl : public torch::nn::Module {
 public:
  /// @param layer tells a network's dropouts apart
  /// @pre 0 <= share < 1
  DropoutImpl(double share, std::uint32_t layer);
  /// The mask of the next forward() is a pure function of (key, layer, index), the index counted in
  /// x's row-major order.
  void draw_from(const RandomKey& key) { key_ = key; }
  at::Tensor forward(const at::Tensor& x);  // of any shape

 private:
  double share_;
  std::uint32_t layer_;
  RandomKey key_;
};
TORCH_MODULE(Dropout);

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

/// A network without shortcuts: a row of convolutions, the mean over what is left of the image, and
/// a classifier.
struct PlainPlan {
  struct Layer {  // convolution, normalization if there is one, ReLU
    std::int64_t width;
    bool pool = false;  // the maximum of 2x2 pixels follows
    std::int64_t kernel = 3;
    std::int64_t stride = 1;
    std::int64_t padding = 1;
  };
  std::vector<Layer> layers;
  std::optional<NormalizationOptions> normalization;
  bool bias = true;           // of the convolutions
  std::int64_t hidden = 0;    // > 0: dropout(1/2), a hidden layer of this width and ReLU come first
  std::int64_t channels = 3;  // of the images
  std::int64_t classes = 10;
};

/// VGG-11 for small images: K. Simonyan, A. Zisserman, ICLR 2015, arXiv:1409.1556, table 1, column
/// A, with normalization and a classifier of 512 x 512 in place of two layers of 4096.
PlainPlan vgg11_plan();
/// AlexNet for small images: A. Krizhevsky, arXiv:1404.5997, with one linear layer as classifier.
PlainPlan alexnet_plan();

/// Parameters have torchvision's names ("features.0.weight"); places of ReLU and pooling are
/// counted with every normalization, so that names do not depend on it. The seed alone decides the
/// initial weights.
std::shared_ptr<Network> make_plain_network(const PlainPlan& plan, std::uint64_t seed);

}  // namespace eqt::model
