// SPDX-License-Identifier: Apache-2.0
// The network `mlp` for arrays, tables and small pictures: hidden layers with ReLU.
//
// Symbols  n samples of d numbers, hidden width h, L hidden layers
// Layer    x = max(0, W x + b), L times: (n, d) to (n, h); then W x + b: (n, outputs)
// Names    those of torch.nn.Sequential(Linear(d, h), ReLU(), ..., Linear(h, outputs)), behind
//          torch.nn.Flatten where a sample has more dimensions

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Functions.h>

#include <algorithm>
#include <string>
#include <vector>

#include "model/torch/network.hpp"

namespace eqt::model {
namespace {

constexpr std::int64_t kMostNumbers = std::int64_t{1} << 24;  // of a sample

/// The numbers of a sample in all inputs together.
/// @throws Error{usage} unless all are floats of a fixed shape
std::int64_t numbers_of(const std::vector<data::ArraySpec>& inputs) {
  std::int64_t numbers = 0;
  for (const data::ArraySpec& input : inputs) {
    std::int64_t each = 1;
    for (const std::int64_t extent : input.shape)
      each = extent < 0 || each > kMostNumbers ? kMostNumbers + 1 : each * extent;
    numbers += each;
    if (input.type == data::ElementType::float32 && numbers <= kMostNumbers) continue;
    fail(Kind::usage,
         "model {}: expected floats of a fixed shape, at most {} for a sample, found {}; leave out "
         "data.integers, or set model.name to \"{}\", or for tokens to \"{}\"",
         models::mlp.name, kMostNumbers, data::text_of(inputs), models::torchscript.name,
         models::bert.name);
  }
  return numbers;
}

class Mlp final : public Network {
 public:
  explicit Mlp(const ModelOptions& options) {
    const at::Generator random = at::detail::createCPUGenerator(options.seed);
    std::int64_t width = numbers_of(options.inputs);
    for (int layer = 0; layer < options.hidden_layers; ++layer) {
      add(2 * layer, width, options.hidden_width, random);  // a ReLU has a number, too
      width = options.hidden_width;
    }
    add(2 * options.hidden_layers, width, options.outputs, random);
  }

  at::Tensor forward(const NetworkInput& input) override {
    std::vector<at::Tensor> parts;
    for (const auto& [name, array] : input.arrays) parts.push_back(array.flatten(1));
    at::Tensor x = parts.size() == 1 ? parts.front() : at::cat(parts, 1);
    for (std::size_t layer = 0; layer + 1 < layers_.size(); ++layer)
      x = at::relu(layers_[layer]->forward(x));
    return layers_.back()->forward(x);
  }

 private:
  void add(int place, std::int64_t in, std::int64_t out, const at::Generator& random) {
    layers_.push_back(register_module(std::to_string(place), Linear(in, out, random)));
  }

  std::vector<Linear> layers_;
};

}  // namespace

std::shared_ptr<Network> make_mlp(const ModelOptions& options) {
  return std::make_shared<Mlp>(options);
}

}  // namespace eqt::model
