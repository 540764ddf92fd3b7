// SPDX-License-Identifier: Apache-2.0
// Networks as lists of layer shapes, from which operations and activation sizes are counted.
//
// Source   CIFAR residual networks: He et al., CVPR 2016, section 4.2, shortcuts by 1x1
//          convolutions; VGG-11 as in S. A. Aketi, S. Kodge, K. Roy, Neural Networks 155 (2022):
//          two linear layers

#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace eqt::theory {

struct Convolution {
  int in = 0, out = 0;  // channels
  int kernel = 3;
  int size = 0;  // L, of the input's side [pixels]
  int stride = 1;
  bool bias = false;
  int output_size() const { return (size + 2 * (kernel / 2) - kernel) / stride + 1; }
};

/// A normalisation layer, or another map that keeps channels and size.
struct Map {
  int channels = 0, size = 0;
  std::uint64_t values() const {
    return std::uint64_t(channels) * std::uint64_t(size) * std::uint64_t(size);
  }
};

struct Linear {
  int in = 0, out = 0;
};

struct NetworkShape {
  std::vector<Convolution> convolutions;
  std::vector<Map> norms;
  std::vector<Map> blocks;  // outputs of residual blocks, each the sum of two maps
  std::vector<Map> pools;   // inputs of pooling layers
  std::vector<Map> pooled;  // their outputs
  std::vector<Linear> linears;
  int features = 0;  // values of hidden vectors after the convolutions, by ReLU and dropout
  std::uint64_t parameters = 0;  // of the network with batch normalisation and no quantiser

  std::uint64_t convolution_weights() const;
  std::uint64_t linear_weights() const;
};

inline constexpr int kImageSize = 32, kImageChannels = 3, kImageClasses = 10;  // CIFAR-10

/// 6 n + 2 layers on 32x32 images.
NetworkShape residual_network(int blocks_per_stage);
NetworkShape vgg11();

}  // namespace eqt::theory
