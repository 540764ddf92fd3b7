// SPDX-License-Identifier: Apache-2.0
// A small network for CIFAR-10 that is trained in few epochs.
//
// Source   K. Jordan, "94% on CIFAR-10 in 3.29 seconds on a single GPU", arXiv:2404.00498, section
//          3 and appendix A: a whitening layer, three blocks of two convolutions, GELU, a scaled
//          head; the initial convolutions pass their input on (section 3.3)
// Differs  normalization layers have a scale that is trained, a running mean as this program's
//          others, and an epsilon of 1e-5; the head has a bias. Without a data set (whitening.hpp)
//          the first layer starts as any convolution does

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Functions.h>

#include <cmath>
#include <memory>
#include <string>

#include "model/architecture.hpp"
#include "model/torch/network.hpp"
#include "model/torch/normalization.hpp"
#include "model/whitening.hpp"

namespace eqt::model {
namespace {

/// Weights of channels that repeat an input channel: its middle pixel, beside what was drawn
/// elsewhere.
void pass_on(const at::Tensor& weight) {
  const at::NoGradGuard no_grad;
  const std::int64_t channels = std::min(weight.size(0), weight.size(1));
  const std::int64_t middle = weight.size(2) / 2;
  at::Tensor first = weight.slice(0, 0, channels);
  first.zero_();
  for (std::int64_t i = 0; i < channels; ++i) first[i][i][middle][middle] = 1;
}

class BlockImpl : public torch::nn::Module {
 public:
  BlockImpl(std::int64_t in, std::int64_t out, const NormalizationOptions& norm,
            const at::Generator& random)
      : conv1_(register_module("conv1", Convolution(in, out, 3, 1, random))),
        norm1_(register_module("norm1", make_normalization(norm, out))),
        conv2_(register_module("conv2", Convolution(out, out, 3, 1, random))),
        norm2_(register_module("norm2", make_normalization(norm, out))) {
    pass_on(conv1_->named_parameters()["weight"]);
    pass_on(conv2_->named_parameters()["weight"]);
  }

  at::Tensor forward(at::Tensor x) {
    x = at::max_pool2d(conv1_->forward(x), 2);
    x = activate(*norm1_, x);
    return activate(*norm2_, conv2_->forward(x));
  }

 private:
  static at::Tensor activate(Normalization& norm, const at::Tensor& x) {
    const at::Tensor y = norm.forward(x);
    return norm.replaces_activation() ? y : at::gelu(y);
  }

  Convolution conv1_;
  std::shared_ptr<Normalization> norm1_;
  Convolution conv2_;
  std::shared_ptr<Normalization> norm2_;
};
TORCH_MODULE(Block);

class Airbench final : public Network {
 public:
  explicit Airbench(const ModelOptions& options) {
    const at::Generator random = at::detail::createCPUGenerator(options.seed);
    const AirbenchPlan plan = airbench_plan(options);
    const NormalizationOptions norm{options.normalization, options.norm_groups};
    const ConvolutionShape first{.in = images_of(options).channels,
                                 .out = plan.whitened,
                                 .kernel = kWhitenedSide,
                                 .padding = 0,
                                 .bias = true};
    whiten_ = register_module("whiten", Convolution(first, random));
    whiten_->named_parameters()["weight"].set_requires_grad(false);
    std::int64_t channels = plan.whitened;
    for (std::size_t i = 0; i < plan.width.size(); ++i) {
      const std::string name = "block" + std::to_string(i + 1);
      blocks_.push_back(register_module(name, Block(channels, plan.width[i], norm, random)));
      channels = plan.width[i];
    }
    head_ = register_module("head", Linear(channels, options.outputs, random));
    const at::NoGradGuard no_grad;
    at::Tensor weight = head_->named_parameters()["weight"];
    weight.div_(weight.std());
    head_->named_parameters()["bias"].zero_();
  }

  at::Tensor forward(const NetworkInput& input) override {
    at::Tensor x = at::gelu(whiten_->forward(input.images()));
    for (Block& block : blocks_) x = block->forward(x);
    x = at::amax(x, {2, 3});
    if (x.scalar_type() != at::kFloat) x = x.to(at::kFloat);
    return head_->forward(x) / static_cast<double>(x.size(1));
  }

 private:
  Convolution whiten_{nullptr};
  std::vector<Block> blocks_;
  Linear head_{nullptr};
};

}  // namespace

std::shared_ptr<Network> make_airbench(const ModelOptions& options) {
  return std::make_shared<Airbench>(options);
}

}  // namespace eqt::model
