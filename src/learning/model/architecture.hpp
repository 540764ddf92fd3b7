// SPDX-License-Identifier: Apache-2.0
// The shapes of the networks of models.def, without torch: LibTorch's are built of them in torch/,
// those with 8-bit operands in own/, unless they are torch_only, and graphs of operations in
// graph/.

#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/random.hpp"
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

/// Fills a mask with what training multiplies values by: 0 for `share` of them on average, and
/// 1 / (1 - share) for the others; a pure function of its arguments.
/// @param layer  tells its draws from those of the network's other layers
/// @pre share is less than 1, and the mask has less than 2^32 values
void draw_dropout(const RandomKey& key, std::uint32_t layer, double share, std::span<float> mask);

/// An activation follows a convolution and its normalization.
enum class Activation : std::uint8_t { none, relu, relu6, hard_swish };

/// A convolution with its normalization and activation.
struct MobileLayer {
  std::string convolution = {}, norm = {};  // their paths in the network
  std::int64_t in = 0, out = 0;
  std::int64_t kernel = 1;
  std::int64_t stride = 1;
  Activation activation = Activation::none;
  bool depthwise = false;  // each channel has a filter of its own
};

/// An inverted residual: it widens, filters each channel, weighs channels and narrows.
struct MobileBlock {
  std::optional<MobileLayer> widen;
  MobileLayer filter;
  std::string squeeze;        // path of the squeeze-and-excitation; "": none
  std::int64_t squeezed = 0;  // its hidden width
  MobileLayer narrow;
  bool adds = false;  // the block's input is added
  double drop = 0;    // share of samples that training gives the block's input alone
};

/// M. Sandler et al., CVPR 2018, arXiv:1801.04381, table 2; A. Howard et al., ICCV 2019,
/// arXiv:1905.02244, table 2; M. Tan, Q. Le, ICML 2019, arXiv:1905.11946, table 1, as
/// EfficientNet-Lite: no squeeze-and-excitation, ReLU6, and stem and last layer of fixed width.
/// Images of at most kSmallImages pixels a side: the stem and the first block that would halve them
/// do not, so that three halvings are left of five.
struct MobilePlan {
  MobileLayer stem;
  std::vector<MobileBlock> blocks;
  MobileLayer last;
  std::string hidden;  // path of a hidden layer before the classifier; "": none
  std::int64_t hidden_width = 0;
  std::string classifier;   // path
  double norm_epsilon = 0;  // of batch normalization
  double norm_share = 0;    // of the newest batch in running values
  bool of_timm = false;     // initial values are timm's, else torchvision's
};

inline constexpr double kMobileDropout = 0.2;  // before the classifier, as published

inline constexpr double kVitDeviation = 0.02;       // of initial weights
inline constexpr double kVitTokenDeviation = 1e-6;  // of the initial class token
inline constexpr double kVitEpsilon = 1e-6;         // of the norms
inline constexpr double kVitDrop = 0.1;  // share of samples that the last layer leaves as they are

/// A. Dosovitskiy et al., ICLR 2021, arXiv:2010.11929, section 3.1; H. Touvron et al., ICML 2021,
/// arXiv:2012.12877, table 1, for the sizes, and section 6, for stochastic depth.
struct VitPlan {
  std::int64_t hidden, layers, heads;
  std::int64_t patch;          // [pixels] of a side: 4 for small images, else 16
  std::int64_t rows, columns;  // of patches
  std::int64_t tokens() const { return rows * columns + 1; }
  /// Returns the share of samples that training leaves a layer's two sums out of.
  double drop(std::int64_t layer) const {
    return kVitDrop * static_cast<double>(layer) / static_cast<double>(layers - 1);
  }
  /// Tells the draws of a layer's second or first sum from all others.
  static std::uint32_t drop_number(std::int64_t layer, bool second) {
    return static_cast<std::uint32_t>(2 * layer + (second ? 1 : 0));
  }
};

/// A. Vaswani et al., arXiv:1706.03762; torch/bert.hpp has the other sources.
struct EncoderPlan {
  EncoderShape shape;
  bool next_token = false;  // it finds each token's successor; else it knows classes of texts
};

/// [pixels] of a side of the patches of vision transformers
int vit_patch(int longer_side);

/// None for networks of another kind. @throws Error{usage} unless pictures are the only input
std::optional<ResNetPlan> resnet_plan(const ModelOptions& options);
std::optional<PlainPlan> plain_plan(const ModelOptions& options);
/// @throws Error{usage} unless pictures are the only input
AirbenchPlan airbench_plan(const ModelOptions& options);
/// @throws Error{usage} unless pictures are the only input
std::optional<MobilePlan> mobile_plan(const ModelOptions& options);
/// @throws Error{usage} unless pictures are the only input, and patches fill them
std::optional<VitPlan> vit_plan(const ModelOptions& options);

/// @throws Error{usage} unless texts are the input, and no longer and of no more tokens than the
/// network takes
EncoderPlan encoder_plan(const ModelOptions& options);

}  // namespace eqt::model
