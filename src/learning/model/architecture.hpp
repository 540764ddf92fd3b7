// SPDX-License-Identifier: Apache-2.0
// The shapes of the convolutional networks of models.def, without torch: what resnet.cpp and
// plain_network.cpp build with LibTorch, and own/ with 8-bit operands.

#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "model/replica.hpp"

namespace eqt::model {

/// K. He, X. Zhang, S. Ren, J. Sun, CVPR 2016, arXiv:1512.03385, table 1 and section 4.2.
struct ResNetPlan {
  std::vector<int> blocks;          // per stage; each stage after the first halves the image
  std::vector<std::int64_t> width;  // channels per stage; the stem has as many as the first
  bool bottleneck = false;          // 1x1, 3x3, 1x1 with four times the width
  bool large_stem = false;          // 7x7 stride 2 and max-pooling, for large images
};

struct BlockShape {
  std::int64_t in;
  std::int64_t width;
  std::int64_t out;
  std::int64_t stride;
  bool changes() const { return stride != 1 || in != out; }
};

/// The block `i` of a stage. @param channels  of its input
BlockShape block_shape(const ResNetPlan& plan, std::size_t stage, int i, std::int64_t channels);

/// A network without shortcuts: a sequence of convolutions, the mean over the remaining image, and
/// a classifier.
struct PlainPlan {
  struct Layer {  // convolution, normalization if there is one, ReLU
    std::int64_t width;
    bool pool = false;  // the maximum of 2x2 pixels follows
    std::int64_t kernel = 3;
    std::int64_t stride = 1;
    std::int64_t padding = 1;
  };
  std::vector<Layer> layers;
  bool normalizes = false;
  bool bias = true;         // of the convolutions
  std::int64_t hidden = 0;  // > 0: dropout(1/2), a hidden layer of this width and ReLU come first
};

/// K. Jordan, arXiv:2404.00498, section 3: whitened patches, then blocks of two convolutions, of
/// which the first is followed by the maximum of 2x2 pixels.
struct AirbenchPlan {
  std::int64_t whitened = 24;                        // channels: each component, with both signs
  std::vector<std::int64_t> width = {64, 256, 256};  // channels of the blocks
  // The newest batch has this share in running values. With 0.1 they lag behind the parameters at
  // the end of a short training.
  double norm_share = 0.4;
};

inline constexpr double kPlainDropout = 0.5;

/// None for networks of another kind. @throws Error{usage} unless pictures are the only input
std::optional<ResNetPlan> resnet_plan(const ModelOptions& options);
std::optional<PlainPlan> plain_plan(const ModelOptions& options);
/// @throws Error{usage} unless pictures are the only input
AirbenchPlan airbench_plan(const ModelOptions& options);

}  // namespace eqt::model
