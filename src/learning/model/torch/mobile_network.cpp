// SPDX-License-Identifier: Apache-2.0
// Networks of inverted residuals: MobileNetV2, MobileNetV3 and EfficientNet-Lite0.
//
// Source   architecture.hpp, at MobilePlan
// Names    torchvision's; timm's for EfficientNet-Lite0
// Start    as these two do: convolutions N(0, 2 / fan-out), where timm's fan-out of a depthwise
//          filter is its own and torchvision's that of all of them; classifiers N(0, 0.01^2), or
//          uniform within 1 / sqrt(outputs) for timm's; biases 0
// Differs  stochastic depth of EfficientNet-Lite0 (G. Huang et al., arXiv:1603.09382) is always on,
//          as in the authors' code; timm asks for it

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Functions.h>

#include <cmath>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/error.hpp"
#include "model/architecture.hpp"
#include "model/torch/depthwise.hpp"
#include "model/torch/network.hpp"
#include "model/torch/normalization.hpp"

namespace eqt::model {
namespace {

/// Registers `child` under a path of names, and makes the modules that lead there.
template <class Child>
Child register_at(torch::nn::Module& root, const std::string& path, Child child) {
  const std::size_t dot = path.find('.');
  if (dot == std::string::npos) return root.register_module(path, std::move(child));
  const std::string name = path.substr(0, dot);
  const auto children = root.named_children();
  const auto* const found = children.find(name);
  const auto parent = found != nullptr
                          ? *found
                          : root.register_module(name, std::make_shared<torch::nn::Module>(name));
  return register_at(*parent, path.substr(dot + 1), std::move(child));
}

/// A convolution of a single pixel, in float32 in any case.
class PixelLinearImpl : public torch::nn::Module {
 public:
  PixelLinearImpl(std::int64_t in, std::int64_t out, at::Generator random) {
    at::Tensor weight = at::empty({out, in, 1, 1});
    weight.normal_(0, std::sqrt(2.0 / static_cast<double>(out)), std::move(random));
    weight_ = register_parameter("weight", weight);
    bias_ = register_parameter("bias", at::zeros({out}));
  }
  at::Tensor forward(const at::Tensor& x) { return at::linear(x, weight_.flatten(1), bias_); }

 private:
  at::Tensor weight_;  // (out, in, 1, 1)
  at::Tensor bias_;    // (out)
};
TORCH_MODULE(PixelLinear);

/// Weighs channels by two layers on their means: J. Hu et al., CVPR 2018, arXiv:1709.01507, with
/// MobileNetV3's hard sigmoid.
class SqueezeImpl : public torch::nn::Module {
 public:
  SqueezeImpl(std::int64_t channels, std::int64_t squeezed, const at::Generator& random)
      : fc1_(register_module("fc1", PixelLinear(channels, squeezed, random))),
        fc2_(register_module("fc2", PixelLinear(squeezed, channels, random))) {}

  at::Tensor forward(const at::Tensor& x) {
    const at::Tensor weights =
        at::hardsigmoid(fc2_->forward(at::relu(fc1_->forward(mean_pixels(x)))));
    return x * weights.unsqueeze(2).unsqueeze(3).to(x.scalar_type());
  }

 private:
  PixelLinear fc1_, fc2_;
};
TORCH_MODULE(Squeeze);

/// A convolution, its normalization and its activation.
class MobileUnit {
 public:
  MobileUnit(torch::nn::Module& root, const MobileLayer& layer, const MobilePlan& plan,
             const NormalizationOptions& norm, const at::Generator& random)
      : activation_(layer.activation) {
    if (layer.depthwise) {
      // torchvision's fan-out is that of a convolution of all channels.
      const std::int64_t filters = plan.of_timm ? 1 : layer.out;
      const auto fan_out = static_cast<double>(layer.kernel * layer.kernel * filters);
      filter_ = register_at(root, layer.convolution,
                            Depthwise(DepthwiseOptions{.channels = layer.out,
                                                       .kernel = layer.kernel,
                                                       .stride = layer.stride,
                                                       .deviation = std::sqrt(2 / fan_out)},
                                      random));
    } else {
      convolution_ =
          register_at(root, layer.convolution,
                      Convolution(layer.in, layer.out, layer.kernel, layer.stride, random));
    }
    norm_ = register_at(root, layer.norm, make_normalization(norm, layer.out));
    norm_->track(plan.norm_share);
    norm_->keep_above(plan.norm_epsilon);
  }

  at::Tensor forward(const at::Tensor& x) {
    const at::Tensor y = convolved(x);
    switch (activation_) {
      case Activation::none:
        return norm_->forward(y);
      case Activation::relu:
        return norm_->relu(y);
      case Activation::relu6: {
        // LibTorch 1.13 has no gradient of hardtanh for bf16.
        if (y.scalar_type() == at::kBFloat16) return norm_->relu(y).clamp_max(6);
        at::Tensor z = norm_->forward(y);  // no gradient needs it
        return at::hardtanh_(z, 0, 6);
      }
      case Activation::hard_swish:
        return at::hardswish(norm_->forward(y));
    }
    fail(Kind::bug, "an activation of number {}", static_cast<int>(activation_));
  }

  /// @pre there is no activation
  at::Tensor add(const at::Tensor& x, const at::Tensor& residual) {
    return norm_->add(convolved(x), residual);
  }

 private:
  at::Tensor convolved(const at::Tensor& x) {
    return filter_.is_empty() ? convolution_->forward(x) : filter_->forward(x);
  }

  Activation activation_;
  Convolution convolution_{nullptr};  // or
  Depthwise filter_{nullptr};
  std::shared_ptr<Normalization> norm_;
};

class MobileNetwork final : public Network {
 public:
  MobileNetwork(const MobilePlan& plan, const ModelOptions& options) {
    const at::Generator random = at::detail::createCPUGenerator(options.seed);
    const NormalizationOptions norm{options.normalization, options.norm_groups};
    const auto unit = [&](const MobileLayer& layer) {
      return MobileUnit(*this, layer, plan, norm, random);
    };
    stem_ = std::make_unique<MobileUnit>(unit(plan.stem));
    for (const MobileBlock& block : plan.blocks) add_block(block, unit, random);
    last_ = std::make_unique<MobileUnit>(unit(plan.last));
    std::int64_t channels = plan.last.out;
    if (!plan.hidden.empty()) {
      hidden_ = add_linear(plan.hidden, channels, plan.hidden_width, plan, random);
      channels = plan.hidden_width;
    }
    dropout_ = register_module("dropout", Dropout(kMobileDropout, 0));
    classifier_ = add_linear(plan.classifier, channels, options.outputs, plan, random);
  }

  void draw_from(const RandomKey& key) override {
    dropout_->draw_from(key);
    for (Block& block : blocks_)
      if (!block.drop.is_empty()) block.drop->draw_from(key);
  }

  at::Tensor forward(const NetworkInput& input) override {
    at::Tensor x = stem_->forward(input.images());
    for (Block& block : blocks_) x = passed(block, x);
    x = mean_pixels(last_->forward(x));
    if (!hidden_.is_empty()) x = at::hardswish(hidden_->forward(x));
    return classifier_->forward(dropout_->forward(x));
  }

 private:
  struct Block {
    std::unique_ptr<MobileUnit> widen, filter, narrow;  // widen: or none
    Squeeze squeeze{nullptr};                           // or none
    bool adds = false;
    Dropout drop{nullptr};  // of samples; or none
  };

  template <class Unit>
  void add_block(const MobileBlock& plan, const Unit& unit, const at::Generator& random) {
    Block block;
    if (plan.widen) block.widen = std::make_unique<MobileUnit>(unit(*plan.widen));
    block.filter = std::make_unique<MobileUnit>(unit(plan.filter));
    if (plan.squeezed > 0)
      block.squeeze =
          register_at(*this, plan.squeeze, Squeeze(plan.filter.out, plan.squeezed, random));
    block.narrow = std::make_unique<MobileUnit>(unit(plan.narrow));
    block.adds = plan.adds;
    if (plan.drop > 0) {
      const std::size_t number = blocks_.size() + 1;  // 0 is the classifier's
      block.drop = register_module("drop" + std::to_string(number),
                                   Dropout(plan.drop, static_cast<std::uint32_t>(number)));
    }
    blocks_.push_back(std::move(block));
  }

  Linear add_linear(const std::string& path, std::int64_t in, std::int64_t out,
                    const MobilePlan& plan, const at::Generator& random) {
    Linear linear = register_at(*this, path, Linear(in, out, random));
    const at::NoGradGuard no_grad;
    auto parameters = linear->named_parameters();
    const double bound = 1 / std::sqrt(static_cast<double>(out));
    if (plan.of_timm)
      parameters["weight"].uniform_(-bound, bound, random);
    else
      parameters["weight"].normal_(0, 0.01, random);
    parameters["bias"].zero_();
    return linear;
  }

  at::Tensor passed(Block& block, const at::Tensor& x) {
    at::Tensor y = block.widen != nullptr ? block.widen->forward(x) : x;
    y = block.filter->forward(y);
    if (!block.squeeze.is_empty()) y = block.squeeze->forward(y);
    if (!block.adds) return block.narrow->forward(y);
    if (block.drop.is_empty() || !is_training()) return block.narrow->add(y, x);
    const at::Tensor kept = block.drop->forward(at::ones({x.size(0), 1, 1, 1}));
    return block.narrow->forward(y) * kept.to(x.device(), x.scalar_type()) + x;
  }

  std::unique_ptr<MobileUnit> stem_, last_;
  std::vector<Block> blocks_;
  Linear hidden_{nullptr};  // or none
  Dropout dropout_{nullptr};
  Linear classifier_{nullptr};
};

std::shared_ptr<Network> make_mobile_network(const ModelOptions& options) {
  return std::make_shared<MobileNetwork>(mobile_plan(options).value(), options);
}

}  // namespace

std::shared_ptr<Network> make_mobilenet_v2(const ModelOptions& options) {
  return make_mobile_network(options);
}
std::shared_ptr<Network> make_mobilenet_v3_small(const ModelOptions& options) {
  return make_mobile_network(options);
}
std::shared_ptr<Network> make_efficientnet_lite0(const ModelOptions& options) {
  return make_mobile_network(options);
}

}  // namespace eqt::model
