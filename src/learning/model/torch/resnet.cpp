// SPDX-License-Identifier: Apache-2.0
// Residual networks for small and large images.
//
// Source   K. He, X. Zhang, S. Ren, J. Sun, CVPR 2016, arXiv:1512.03385, table 1 and section 4.2
// Differs  from the paper: a bottleneck block strides in its 3x3 convolution, as torchvision's do

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Functions.h>
#include <torch/nn/modules/container/sequential.h>

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "model/architecture.hpp"
#include "model/torch/network.hpp"
#include "model/torch/normalization.hpp"

namespace eqt::model {
namespace {

using Norm = std::shared_ptr<Normalization>;

/// The properties that all blocks of a network share.
struct BlockStyle {
  Shortcut shortcut;
  NormalizationOptions normalization;
};

/// Shortcut B; the names are those of torchvision's Sequential.
class ProjectionImpl : public torch::nn::Module {
 public:
  ProjectionImpl(const BlockShape& shape, const BlockStyle& style, at::Generator random)
      : convolution_(
            register_module("0", Convolution(shape.in, shape.out, 1, shape.stride, random))),
        norm_(register_module("1", make_normalization(style.normalization, shape.out))) {}

  at::Tensor forward(const at::Tensor& x) { return norm_->forward(convolution_->forward(x)); }

 private:
  Convolution convolution_;
  Norm norm_;
};
TORCH_MODULE(Projection);

/// A block's shortcut: identity, A (every stride-th pixel, new channels zero) or
/// B.
class ShortcutPath {
 public:
  ShortcutPath(torch::nn::Module& block, const BlockShape& shape, const BlockStyle& style,
               at::Generator random)
      : shape_(shape) {
    if (!shape.changes() || style.shortcut == Shortcut::padding) return;
    projection_ = block.register_module("downsample", Projection(shape, style, random));
  }

  at::Tensor forward(const at::Tensor& x) {
    if (!shape_.changes()) return x;
    if (!projection_.is_empty()) return projection_->forward(x);
    const at::Tensor pixels =
        x.slice(2, 0, x.size(2), shape_.stride).slice(3, 0, x.size(3), shape_.stride);
    const std::int64_t extra = shape_.out - shape_.in, before = extra / 2;
    return at::constant_pad_nd(pixels, {0, 0, 0, 0, before, extra - before});
  }

 private:
  BlockShape shape_;
  Projection projection_{nullptr};
};

class BasicBlockImpl : public torch::nn::Module {
 public:
  BasicBlockImpl(const BlockShape& shape, const BlockStyle& style, at::Generator random)
      : conv1_(
            register_module("conv1", Convolution(shape.in, shape.width, 3, shape.stride, random))),
        bn1_(register_module("bn1", make_normalization(style.normalization, shape.width))),
        conv2_(register_module("conv2", Convolution(shape.width, shape.out, 3, 1, random))),
        bn2_(register_module("bn2", make_normalization(style.normalization, shape.out))),
        shortcut_(*this, shape, style, random) {}

  at::Tensor forward(const at::Tensor& x) {
    const at::Tensor y = bn1_->relu(conv1_->forward(x));
    return bn2_->add_relu(conv2_->forward(y), shortcut_.forward(x));
  }

 private:
  Convolution conv1_;
  Norm bn1_;
  Convolution conv2_;
  Norm bn2_;
  ShortcutPath shortcut_;
};
TORCH_MODULE(BasicBlock);

class BottleneckImpl : public torch::nn::Module {
 public:
  BottleneckImpl(const BlockShape& shape, const BlockStyle& style, at::Generator random)
      : conv1_(register_module("conv1", Convolution(shape.in, shape.width, 1, 1, random))),
        bn1_(register_module("bn1", make_normalization(style.normalization, shape.width))),
        conv2_(register_module("conv2",
                               Convolution(shape.width, shape.width, 3, shape.stride, random))),
        bn2_(register_module("bn2", make_normalization(style.normalization, shape.width))),
        conv3_(register_module("conv3", Convolution(shape.width, shape.out, 1, 1, random))),
        bn3_(register_module("bn3", make_normalization(style.normalization, shape.out))),
        shortcut_(*this, shape, style, random) {}

  at::Tensor forward(const at::Tensor& x) {
    at::Tensor y = bn1_->relu(conv1_->forward(x));
    y = bn2_->relu(conv2_->forward(y));
    return bn3_->add_relu(conv3_->forward(y), shortcut_.forward(x));
  }

 private:
  Convolution conv1_;
  Norm bn1_;
  Convolution conv2_;
  Norm bn2_;
  Convolution conv3_;
  Norm bn3_;
  ShortcutPath shortcut_;
};
TORCH_MODULE(Bottleneck);

class ResNet : public Network {
 public:
  ResNet(const ResNetPlan& plan, const ModelOptions& options, at::Generator random)
      : style_{options.shortcut, {options.normalization, options.norm_groups}},
        large_stem_(plan.large_stem),
        conv1_(register_module(
            "conv1", Convolution(images_of(options).channels, plan.width[0],
                                 plan.large_stem ? 7 : 3, plan.large_stem ? 2 : 1, random))),
        bn1_(register_module("bn1", make_normalization(style_.normalization, plan.width[0]))) {
    std::int64_t channels = plan.width[0];
    for (std::size_t stage = 0; stage < plan.blocks.size(); ++stage) {
      stages_.push_back(register_module("layer" + std::to_string(stage + 1),
                                        make_stage(plan, stage, channels, random)));
    }
    fc_ = register_module("fc", Linear(channels, options.outputs, random));
  }

  at::Tensor forward(const NetworkInput& input) override {
    at::Tensor x = bn1_->relu(conv1_->forward(input.images()));
    if (large_stem_) x = at::max_pool2d(x, 3, 2, 1);
    for (auto& stage : stages_) x = stage->forward(x);
    return fc_->forward(mean_pixels(x));
  }

 private:
  /// @param channels in: the stage's input channels; out: its output channels
  torch::nn::Sequential make_stage(const ResNetPlan& plan, std::size_t stage,
                                   std::int64_t& channels, const at::Generator& random) const {
    torch::nn::Sequential blocks;
    for (int i = 0; i < plan.blocks[stage]; ++i) {
      const BlockShape shape = block_shape(plan, stage, i, channels);
      if (plan.bottleneck) {
        blocks->push_back(Bottleneck(shape, style_, random));
      } else {
        blocks->push_back(BasicBlock(shape, style_, random));
      }
      channels = shape.out;
    }
    return blocks;
  }

  BlockStyle style_;
  bool large_stem_;
  Convolution conv1_;
  Norm bn1_;
  std::vector<torch::nn::Sequential> stages_;
  Linear fc_{nullptr};
};

}  // namespace

#define EQT_RESNET(id)                                                             \
  std::shared_ptr<Network> make_##id(const ModelOptions& options) {                \
    return std::make_shared<ResNet>(resnet_plan(options).value(), options,         \
                                    at::detail::createCPUGenerator(options.seed)); \
  }
EQT_RESNET(resnet18)
EQT_RESNET(resnet20)
EQT_RESNET(resnet34)
EQT_RESNET(resnet50)
EQT_RESNET(resnet54)
EQT_RESNET(resnet56)
EQT_RESNET(resnet110)
#undef EQT_RESNET

}  // namespace eqt::model
