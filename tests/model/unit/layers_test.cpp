// SPDX-License-Identifier: Apache-2.0
// Dropout and convolution with bias, through the torch-free interface.

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>

#include <cmath>

#include "core/error.hpp"
#include "model/torch/depthwise.hpp"
#include "model/torch/network.hpp"
#include "support/catch.hpp"

namespace eqt::model {
namespace {

constexpr RandomKey kKey{.run_seed = 7, .step = 3, .rank = 1, .slice = 0xF0000006u};

at::Tensor drop(double share, std::uint32_t layer, const RandomKey& key, const at::Tensor& x) {
  Dropout dropout(share, layer);
  dropout->draw_from(key);
  return dropout->forward(x);
}

}  // namespace

TEST_CASE("dropout sets its share to 0 and scales the others", "[layers]") {
  const double share = GENERATE(0.0, 0.1, 0.5, 0.9);
  constexpr std::int64_t kRows = 400, kColumns = 500;
  const at::Tensor y = drop(share, 0, kKey, at::ones({kRows, kColumns}));
  const at::Tensor zeros = y == 0;
  const auto kept = static_cast<float>(1 / (1 - share));
  CHECK(at::logical_or(zeros, y == kept).all().item<bool>());
  // Five standard deviations of a binomial share, of all values and of each column's.
  const auto margin = [&](double count) { return 5 * std::sqrt(share * (1 - share) / count); };
  CHECK(zeros.to(at::kDouble).mean().item<double>() ==
        Approx(share).margin(margin(kRows * kColumns)));
  const at::Tensor columns = zeros.to(at::kDouble).mean(0);
  CHECK((columns - share).abs().max().item<double>() <= margin(kRows));
}

TEST_CASE("a mask is a pure function of seed, step, rank, layer and index", "[layers]") {
  const at::Tensor x = at::ones({8, 100});
  const at::Tensor mask = drop(0.5, 0, kKey, x);
  CHECK(drop(0.5, 0, kKey, x).equal(mask));
  // The first rows of a larger batch, and any other shape.
  CHECK(drop(0.5, 0, kKey, at::ones({20, 100})).slice(0, 0, 8).equal(mask));
  CHECK(drop(0.5, 0, kKey, at::ones({800})).view({8, 100}).equal(mask));
  RandomKey seed = kKey, step = kKey, rank = kKey;
  ++seed.run_seed, ++step.step, ++rank.rank;
  for (const at::Tensor& other : {drop(0.5, 0, seed, x), drop(0.5, 0, step, x),
                                  drop(0.5, 0, rank, x), drop(0.5, 1, kKey, x)}) {
    // 800 fair coins agree with others in 400 places; five standard deviations are 71.
    CHECK(std::abs(other.eq(mask).sum().item<double>() - 400) < 71);
  }
}

TEST_CASE("dropout's gradient is its mask, and evaluation does not change values", "[layers]") {
  const at::Tensor x = at::randn({5, 40}).set_requires_grad(true);
  Dropout dropout(0.5, 0);
  dropout->draw_from(kKey);
  const at::Tensor y = dropout->forward(x);
  y.sum().backward();
  CHECK(y.detach().equal(x.detach() * x.grad()));
  dropout->eval();
  CHECK(dropout->forward(x).is_same(x));
  CHECK_THROWS_AS(Dropout(1.0, 0), Error);
}

TEST_CASE("a depthwise convolution and its gradients are LibTorch's", "[layers]") {
  const std::int64_t kernel = GENERATE(3, 5), stride = GENERATE(1, 2);
  constexpr std::int64_t kChannels = 24;
  Depthwise depthwise(
      DepthwiseOptions{.channels = kChannels, .kernel = kernel, .stride = stride, .deviation = 0.3},
      at::detail::createCPUGenerator(1));
  at::Tensor weight = depthwise->named_parameters()["weight"];
  const at::Tensor x = at::randn({3, kChannels, 11, 8}, at::detail::createCPUGenerator(2));
  const at::Tensor own = x.contiguous(at::MemoryFormat::ChannelsLast).requires_grad_(true);
  const at::Tensor theirs = x.clone().requires_grad_(true);
  const at::Tensor kernels = weight.detach().clone().requires_grad_(true);
  const at::Tensor y = depthwise->forward(own);
  const at::Tensor expected =
      at::conv2d(theirs, kernels, {}, stride, (kernel - 1) / 2, 1, kChannels);
  CHECK(y.is_contiguous(at::MemoryFormat::ChannelsLast));
  CHECK(at::allclose(y, expected, 1e-5, 1e-5));
  const at::Tensor g = at::randn(expected.sizes(), at::detail::createCPUGenerator(3));
  y.backward(g);
  expected.backward(g);
  CHECK(at::allclose(own.grad(), theirs.grad(), 1e-5, 1e-5));
  CHECK(at::allclose(weight.grad(), kernels.grad(), 1e-5, 1e-4));

  // bf16 images have the results of their values, rounded.
  const at::Tensor rounded = x.to(at::kBFloat16);
  const at::NoGradGuard no_grad;
  CHECK(depthwise->forward(rounded).equal(
      depthwise->forward(rounded.to(at::kFloat)).to(at::kBFloat16)));
}

TEST_CASE("a convolution's bias, stride and padding are those of its shape", "[layers]") {
  Convolution convolution(
      ConvolutionShape{.in = 2, .out = 3, .kernel = 5, .stride = 4, .padding = 3, .bias = true},
      at::detail::createCPUGenerator(1));
  auto parameters = convolution->named_parameters();
  REQUIRE(parameters.size() == 2);
  CHECK(parameters["bias"].eq(0).all().item<bool>());
  {
    const at::NoGradGuard no_grad;
    parameters["bias"].copy_(at::arange(3));
  }
  // (9 + 2 * 3 - 5) / 4 + 1 = 3 positions, rounded down; of zeros only the bias is left.
  const at::Tensor y = convolution->forward(at::zeros({1, 2, 9, 9}));
  REQUIRE(y.sizes() == at::IntArrayRef({1, 3, 3, 3}));
  for (int c = 0; c < 3; ++c) CHECK(y[0][c].eq(c).all().item<bool>());
}

}  // namespace eqt::model
