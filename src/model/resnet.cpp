// Residual networks for small and large images.
//
// Source   K. He, X. Zhang, S. Ren, J. Sun, CVPR 2016, arXiv:1512.03385, table 1 and section 4.2
// Differs  from the paper: a bottleneck block strides in its 3x3 convolution, as torchvision's do

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Functions.h>
#include <torch/nn/modules/container/sequential.h>

#include <memory>

#include "model/network.hpp"
#include "model/normalization.hpp"

namespace eqt::model {

namespace {

struct BlockShape {
  std::int64_t in;
  std::int64_t width;
  std::int64_t out;
  std::int64_t stride;
  bool changes() const { return stride != 1 || in != out; }
};

using Norm = std::shared_ptr<Normalization>;

/// What all blocks of a network share.
struct BlockStyle {
  bool projection;
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

/// The way around a block: identity, shortcut A (every stride-th pixel, new channels zero) or B.
class Shortcut {
 public:
  Shortcut(torch::nn::Module& block, const BlockShape& shape, const BlockStyle& style,
           at::Generator random)
      : shape_(shape) {
    if (!shape.changes() || !style.projection) return;
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
  Shortcut shortcut_;
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
  Shortcut shortcut_;
};
TORCH_MODULE(Bottleneck);

class ResNet : public Network {
 public:
  ResNet(const ResNetPlan& plan, at::Generator random)
      : large_stem_(plan.large_stem),
        conv1_(register_module("conv1",
                               Convolution(plan.channels, plan.width[0], plan.large_stem ? 7 : 3,
                                           plan.large_stem ? 2 : 1, random))),
        bn1_(register_module("bn1", make_normalization(plan.normalization, plan.width[0]))) {
    std::int64_t channels = plan.width[0];
    for (std::size_t stage = 0; stage < plan.blocks.size(); ++stage) {
      stages_.push_back(register_module("layer" + std::to_string(stage + 1),
                                        make_stage(plan, stage, channels, random)));
    }
    fc_ = register_module("fc", Linear(channels, plan.classes, random));
  }

  at::Tensor forward(const at::Tensor& images) override {
    at::Tensor x = bn1_->relu(conv1_->forward(images));
    if (large_stem_) x = at::max_pool2d(x, 3, 2, 1);
    for (auto& stage : stages_) x = stage->forward(x);
    return fc_->forward(x.mean({2, 3}));
  }

 private:
  /// @param channels in: what the stage reads; out: what it delivers
  static torch::nn::Sequential make_stage(const ResNetPlan& plan, std::size_t stage,
                                          std::int64_t& channels, const at::Generator& random) {
    const BlockStyle style{plan.projection, plan.normalization};
    torch::nn::Sequential blocks;
    for (int i = 0; i < plan.blocks[stage]; ++i) {
      const std::int64_t width = plan.width[stage];
      const BlockShape shape{channels, width, plan.bottleneck ? 4 * width : width,
                             i == 0 && stage > 0 ? 2 : 1};
      if (plan.bottleneck) {
        blocks->push_back(Bottleneck(shape, style, random));
      } else {
        blocks->push_back(BasicBlock(shape, style, random));
      }
      channels = shape.out;
    }
    return blocks;
  }

  bool large_stem_;
  Convolution conv1_;
  Norm bn1_;
  std::vector<torch::nn::Sequential> stages_;
  Linear fc_{nullptr};
};

}  // namespace

std::shared_ptr<Network> make_resnet(const ResNetPlan& plan, std::uint64_t seed) {
  return std::make_shared<ResNet>(plan, at::detail::createCPUGenerator(seed));
}

}  // namespace eqt::model
