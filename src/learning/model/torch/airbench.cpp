// SPDX-License-Identifier: Apache-2.0
// A small network for CIFAR-10 that is trained in few epochs.
//
// Source   K. Jordan, "94% on CIFAR-10 in 3.29 seconds on a single GPU", arXiv:2404.00498, section
//          3 and appendix A: a whitening layer, three blocks of two convolutions, GELU, a scaled
//          head; the initial convolutions pass their input on (section 3.3)
// Differs  normalization layers have a scale that is trained, and an epsilon of 1e-5; the head has
//          a bias. Without a data set (whitening.hpp) the first layer starts as any convolution
//          does. The widths of airbench_small are this program's

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Functions.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "model/architecture.hpp"
#include "model/gelu_kernels.hpp"
#include "model/pool_kernels.hpp"
#include "model/torch/network.hpp"
#include "model/torch/norm_blocks.hpp"
#include "model/torch/normalization.hpp"
#include "model/whitening.hpp"

namespace eqt::model {
namespace {

/// Computes the activation by vector kernels: LibTorch 1.13's take a quarter of this network's step
/// in bf16.
class Gelu : public torch::autograd::Function<Gelu> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& images) {
    const at::Tensor x = images.contiguous(kChannelsLast);
    const at::Tensor y = at::empty_like(x);
    const RowBlocks blocks(x);
    const ImageValues from(x), to(y);
    blocks.for_each([&](std::size_t b) {
      blocks.write(to, b, Scratch::output, [&](std::span<float> values) {
        model::gelu(blocks.read(from, b, Scratch::input), values);
      });
    });
    context->save_for_backward({x});
    return y;
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list outputs) {
    const at::Tensor x = context->get_saved_variables()[0];
    const at::Tensor g = outputs[0].contiguous(kChannelsLast);
    const at::Tensor dx = at::empty_like(x);
    const RowBlocks blocks(x);
    const ImageValues from(x), errors(g), to(dx);
    blocks.for_each([&](std::size_t b) {
      blocks.write(to, b, Scratch::output, [&](std::span<float> values) {
        gelu_gradient(blocks.read(errors, b, Scratch::gradient),
                      blocks.read(from, b, Scratch::input), values);
      });
    });
    return {dx};
  }
};

at::Tensor activated(const at::Tensor& x) { return is_for_torch(x) ? at::gelu(x) : Gelu::apply(x); }

/// The pairs of rows of images, of which each gives a row of maxima.
struct RowPairs {
  explicit RowPairs(const at::Tensor& x)
      : samples(static_cast<std::size_t>(x.size(0))),
        channels(static_cast<std::size_t>(x.size(1))),
        height(static_cast<std::size_t>(x.size(2))),
        row(channels * static_cast<std::size_t>(x.size(3))),
        pooled(channels * static_cast<std::size_t>(x.size(3) / 2)) {}

  std::size_t count() const { return samples * (height / 2); }
  /// Returns the place of a pair's first value.
  std::size_t first(std::size_t pair) const {
    return (pair / (height / 2) * height + pair % (height / 2) * 2) * row;
  }
  /// Returns its rows: the last pair of an image takes a row that is in no window with it.
  std::size_t rows(std::size_t pair) const {
    return pair % (height / 2) == height / 2 - 1 ? 2 + height % 2 : 2;
  }

  std::size_t samples, channels, height;
  std::size_t row, pooled;  // values of a row of images, and of maxima
};

/// Maxima of windows of 2 x 2 pixels; a last row or column that fills no window is left out.
class MaxPool : public torch::autograd::Function<MaxPool> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& images) {
    const at::Tensor x = images.contiguous(kChannelsLast);
    const at::Tensor y = at::empty({x.size(0), x.size(1), x.size(2) / 2, x.size(3) / 2},
                                   x.options().memory_format(kChannelsLast));
    const at::Tensor which = at::empty({y.numel()}, at::kByte);
    auto* const places = which.data_ptr<std::uint8_t>();
    const RowPairs pairs(x);
    const ImageValues from(x), to(y);
    for_each_of(pairs.count(), [&](std::size_t i) {
      const auto rows = from.read(pairs.first(i), 2 * pairs.row, Scratch::input);
      to.write(i * pairs.pooled, pairs.pooled, Scratch::output, [&](std::span<float> values) {
        max_pool_rows(rows.first(pairs.row), rows.last(pairs.row), pairs.channels, values,
                      {places + i * pairs.pooled, pairs.pooled});
      });
    });
    context->save_for_backward({which});
    context->saved_data["sizes"] = x.sizes();
    return y;
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list outputs) {
    const at::Tensor which = context->get_saved_variables()[0];
    const at::Tensor g = outputs[0].contiguous(kChannelsLast);
    const at::Tensor dx = at::empty(context->saved_data["sizes"].toIntVector(),
                                    g.options().memory_format(kChannelsLast));
    const auto* const places = which.data_ptr<std::uint8_t>();
    const RowPairs pairs(dx);
    const ImageValues errors(g), to(dx);
    for_each_of(pairs.count(), [&](std::size_t i) {
      const auto row = errors.read(i * pairs.pooled, pairs.pooled, Scratch::gradient);
      to.write(pairs.first(i), pairs.rows(i) * pairs.row, Scratch::output,
               [&](std::span<float> rows) {
                 max_pool_gradient(row, {places + i * pairs.pooled, pairs.pooled}, pairs.channels,
                                   rows.first(pairs.row), rows.subspan(pairs.row, pairs.row));
                 std::ranges::fill(rows.subspan(2 * pairs.row), 0.0f);
               });
    });
    return {dx};
  }
};

at::Tensor pooled(const at::Tensor& x) {
  return is_for_torch(x) ? at::max_pool2d(x, 2) : MaxPool::apply(x);
}

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
  BlockImpl(std::int64_t in, std::int64_t out, const NormalizationOptions& norm, double norm_share,
            const at::Generator& random)
      : conv1_(register_module("conv1", Convolution(in, out, 3, 1, random))),
        norm1_(register_module("norm1", make_normalization(norm, out))),
        conv2_(register_module("conv2", Convolution(out, out, 3, 1, random))),
        norm2_(register_module("norm2", make_normalization(norm, out))) {
    norm1_->track(norm_share);
    norm2_->track(norm_share);
    pass_on(conv1_->named_parameters()["weight"]);
    pass_on(conv2_->named_parameters()["weight"]);
  }

  at::Tensor forward(at::Tensor x) {
    x = pooled(conv1_->forward(x));
    x = activate(*norm1_, x);
    return activate(*norm2_, conv2_->forward(x));
  }

 private:
  static at::Tensor activate(Normalization& norm, const at::Tensor& x) {
    const at::Tensor y = norm.forward(x);
    return norm.replaces_activation() ? y : activated(y);
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
      blocks_.push_back(
          register_module(name, Block(channels, plan.width[i], norm, plan.norm_share, random)));
      channels = plan.width[i];
    }
    head_ = register_module("head", Linear(channels, options.outputs, random));
    const at::NoGradGuard no_grad;
    at::Tensor weight = head_->named_parameters()["weight"];
    weight.div_(weight.std());
    head_->named_parameters()["bias"].zero_();
  }

  at::Tensor forward(const NetworkInput& input) override {
    at::Tensor x = activated(whiten_->forward(input.images()));
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

std::shared_ptr<Network> make_airbench_small(const ModelOptions& options) {
  return std::make_shared<Airbench>(options);
}

}  // namespace eqt::model
