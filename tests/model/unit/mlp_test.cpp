// SPDX-License-Identifier: Apache-2.0
// The network `mlp` against its formula.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/random.hpp"
#include "model/replica.hpp"
#include "support/catch.hpp"
#include "support/refusal.hpp"

namespace eqt::model {
namespace {

constexpr int kHidden = 5, kLayers = 2, kOutputs = 3;

data::ArraySpec numbers(std::vector<std::int64_t> shape) {
  return {.name = "x", .type = data::ElementType::float32, .shape = std::move(shape)};
}

ModelOptions mlp_options(std::vector<std::int64_t> shape) {
  return {.model = models::mlp,
          .inputs = {numbers(std::move(shape))},
          .target = data::class_spec(kOutputs),
          .outputs = kOutputs,
          .hidden_layers = kLayers,
          .hidden_width = kHidden,
          .seed = 3};
}

data::Batch drawn_batch(const ModelOptions& options, std::size_t size) {
  const RandomStream random({.run_seed = 7});
  data::Batch batch;
  batch.inputs.resize(1);
  const auto values = batch.inputs[0].prepare<float>(options.inputs[0], size);
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = random.uniform(static_cast<std::uint32_t>(i)) * 2 - 1;
  const auto labels = batch.targets.prepare<std::int64_t>(*options.target, size);
  for (std::size_t i = 0; i < size; ++i) labels[i] = static_cast<std::int64_t>(i % kOutputs);
  return batch;
}

/// W x + b with the parameters from `at` on, which then stands behind them.
std::vector<double> affine(const std::vector<double>& x, std::size_t out,
                           std::span<const float> parameters, std::size_t& at) {
  std::vector<double> y(out);
  for (std::size_t o = 0; o < out; ++o)
    for (std::size_t i = 0; i < x.size(); ++i)
      y[o] += double{parameters[at + o * x.size() + i]} * x[i];
  at += out * x.size();
  for (std::size_t o = 0; o < out; ++o) y[o] += double{parameters[at + o]};
  at += out;
  return y;
}

}  // namespace

TEST_CASE("mlp has the names of torch.nn.Sequential and computes its formula", "[model]") {
  const ModelOptions options = mlp_options({2, 3});
  const auto replica = make_replica(options);
  std::vector<std::string> names;
  for (const TensorSlice& slice : replica->layout()) names.push_back(slice.name);
  CHECK(names ==
        std::vector<std::string>{"0.weight", "0.bias", "2.weight", "2.bias", "4.weight", "4.bias"});
  CHECK(replica->parameters().size() == 6 * 5 + 5 + 5 * 5 + 5 + 5 * 3 + 3);
  constexpr std::size_t kSamples = 4;
  const data::Batch batch = drawn_batch(options, kSamples);
  data::Array found;
  replica->predict(batch, found);
  const auto inputs = batch.inputs[0].get<float>();
  for (std::size_t sample = 0; sample < kSamples; ++sample) {
    std::vector<double> x(inputs.begin() + static_cast<std::ptrdiff_t>(6 * sample),
                          inputs.begin() + static_cast<std::ptrdiff_t>(6 * sample + 6));
    std::size_t at = 0;
    for (int layer = 0; layer < kLayers; ++layer) {
      x = affine(x, kHidden, replica->parameters(), at);
      for (double& value : x) value = std::max(value, 0.0);
    }
    x = affine(x, kOutputs, replica->parameters(), at);
    for (std::size_t o = 0; o < kOutputs; ++o)
      CHECK(std::abs(double{found.get<float>()[sample * kOutputs + o]} - x[o]) < 1e-5);
  }
}

TEST_CASE("mlp learns, from any shape of numbers and from pictures", "[model]") {
  for (const ModelOptions& options : {mlp_options({4}), mlp_options({2, 3, 2})}) {
    const auto replica = make_replica(options);
    const data::Batch batch = drawn_batch(options, 8);
    const double before = replica->forward_backward(batch, {});
    for (int step = 0; step < 50; ++step) {
      (void)replica->forward_backward(batch, {});
      const std::span<const float> gradient = replica->gradient();
      for (std::size_t i = 0; i < gradient.size(); ++i)
        replica->parameters()[i] -= 0.3f * gradient[i];
    }
    CHECK(replica->forward_backward(batch, {}) < 0.8 * before);
  }
  ModelOptions pictures = mlp_options({});
  pictures.inputs = {data::image_spec({3, 4, 4})};
  CHECK(make_replica(pictures)->parameters().size() == 48 * 5 + 5 + 5 * 5 + 5 + 5 * 3 + 3);
}

TEST_CASE("mlp is a function of the seed and refuses tokens", "[model]") {
  ModelOptions options = mlp_options({4});
  const auto copy = [](Replica& replica) {
    return std::vector<float>(replica.parameters().begin(), replica.parameters().end());
  };
  const std::vector<float> first = copy(*make_replica(options));
  CHECK(first == copy(*make_replica(options)));
  options.seed = 4;
  CHECK(first != copy(*make_replica(options)));
  options.inputs[0].type = data::ElementType::int64;
  options.inputs[0].bound = 10;
  test::says(test::refusal(Kind::usage, [&] { (void)make_replica(options); }), "expected floats");
}

}  // namespace eqt::model
