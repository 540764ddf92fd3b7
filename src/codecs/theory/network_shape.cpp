// SPDX-License-Identifier: Apache-2.0
#include "theory/network_shape.hpp"

namespace eqt::theory {
namespace {

void add_convolution(NetworkShape& shape, const Convolution& convolution) {
  shape.convolutions.push_back(convolution);
  shape.norms.push_back({convolution.out, convolution.output_size()});
  shape.parameters +=
      std::uint64_t(convolution.in) * std::uint64_t(convolution.out) *
          std::uint64_t(convolution.kernel) * std::uint64_t(convolution.kernel) +
      (convolution.bias ? 3 : 2) * std::uint64_t(convolution.out);  // two of the norm
}

void add_linear(NetworkShape& shape, int in, int out) {
  shape.linears.push_back({in, out});
  shape.parameters += std::uint64_t(in + 1) * std::uint64_t(out);
}

}  // namespace

std::uint64_t NetworkShape::convolution_weights() const {
  std::uint64_t weights = 0;
  for (const Convolution& c : convolutions)
    weights += std::uint64_t(c.in) * std::uint64_t(c.out) * std::uint64_t(c.kernel * c.kernel);
  return weights;
}

std::uint64_t NetworkShape::linear_weights() const {
  std::uint64_t weights = 0;
  for (const Linear& l : linears) weights += std::uint64_t(l.in) * std::uint64_t(l.out);
  return weights;
}

NetworkShape residual_network(int blocks_per_stage) {
  NetworkShape shape;
  int channels = 16, size = kImageSize;
  add_convolution(shape, {.in = kImageChannels, .out = channels, .size = size});
  for (const int out : {16, 32, 64}) {
    for (int block = 0; block < blocks_per_stage; ++block) {
      const int stride = out != channels ? 2 : 1;
      add_convolution(shape, {.in = channels, .out = out, .size = size, .stride = stride});
      add_convolution(shape, {.in = out, .out = out, .size = size / stride});
      if (stride == 2)
        add_convolution(shape,
                        {.in = channels, .out = out, .kernel = 1, .size = size, .stride = stride});
      size /= stride;
      channels = out;
      shape.blocks.push_back({channels, size});
    }
  }
  shape.pools.push_back({channels, size});
  shape.pooled.push_back({channels, 1});
  add_linear(shape, channels, kImageClasses);
  return shape;
}

NetworkShape vgg11() {
  constexpr int kPool = 0;
  NetworkShape shape;
  int channels = kImageChannels, size = kImageSize;
  for (const int out : {64, kPool, 128, kPool, 256, 256, kPool, 512, 512, kPool, 512, 512, kPool}) {
    if (out == kPool) {
      shape.pools.push_back({channels, size});
      size /= 2;
      shape.pooled.push_back({channels, size});
      continue;
    }
    add_convolution(shape, {.in = channels, .out = out, .size = size, .bias = true});
    channels = out;
  }
  constexpr int kHidden = 512;
  add_linear(shape, channels, kHidden);
  add_linear(shape, kHidden, kImageClasses);
  shape.features = 2 * kHidden;  // dropout before the first linear layer, ReLU after it
  return shape;
}

}  // namespace eqt::theory
