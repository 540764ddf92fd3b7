// SPDX-License-Identifier: Apache-2.0
#include "model/architecture.hpp"

#include <algorithm>
#include <utility>

#include "model/whitening.hpp"

namespace eqt::model {
namespace {

/// Section 4.2 of the paper: 6n + 2 layers, n blocks a stage.
ResNetPlan small_resnet(int blocks) {
  return {.blocks = {blocks, blocks, blocks}, .width = {16, 32, 64}};
}

/// Table 1 of the paper; images of at most kSmallImages pixels a side take the 3x3 stem.
ResNetPlan large_resnet(std::vector<int> blocks, bool bottleneck, const ModelOptions& options) {
  const data::ImageShape images = images_of(options);
  return {.blocks = std::move(blocks),
          .width = {64, 128, 256, 512},
          .bottleneck = bottleneck,
          .large_stem = std::max(images.height, images.width) > kSmallImages};
}

PlainPlan vgg11(const ModelOptions& options) {
  return {.layers = {{.width = 64, .pool = true},
                     {.width = 128, .pool = true},
                     {.width = 256},
                     {.width = 256, .pool = true},
                     {.width = 512},
                     {.width = 512, .pool = true},
                     {.width = 512},
                     {.width = 512, .pool = true}},
          .normalizes = true,
          .bias = !options.normalization->replaces_bias,
          .hidden = 512};
}

PlainPlan alexnet() {
  return {.layers = {{.width = 64, .pool = true, .kernel = 11, .stride = 4, .padding = 5},
                     {.width = 192, .pool = true, .kernel = 5, .padding = 2},
                     {.width = 384},
                     {.width = 256},
                     {.width = 256, .pool = true}}};
}

}  // namespace

BlockShape block_shape(const ResNetPlan& plan, std::size_t stage, int i, std::int64_t channels) {
  const std::int64_t width = plan.width[stage];
  return {channels, width, plan.bottleneck ? 4 * width : width, i == 0 && stage > 0 ? 2 : 1};
}

std::optional<ResNetPlan> resnet_plan(const ModelOptions& options) {
  const Entry<ModelRow> model = options.model;
  if (model == models::resnet18) return large_resnet({2, 2, 2, 2}, false, options);
  if (model == models::resnet34) return large_resnet({3, 4, 6, 3}, false, options);
  if (model == models::resnet50) return large_resnet({3, 4, 6, 3}, true, options);
  if (model == models::resnet20) return small_resnet(3);
  // The network with this name in low-precision literature has n = 8, which makes 50 layers.
  if (model == models::resnet54) return small_resnet(8);
  if (model == models::resnet56) return small_resnet(9);
  if (model == models::resnet110) return small_resnet(18);
  return {};
}

std::optional<PlainPlan> plain_plan(const ModelOptions& options) {
  if (options.model == models::vgg11) return vgg11(options);
  if (options.model == models::alexnet) return alexnet();
  return {};
}

AirbenchPlan airbench_plan(const ModelOptions& options) {
  constexpr int kPatch = kWhitenedSide * kWhitenedSide;
  AirbenchPlan plan{.whitened = 2 * kPatch * images_of(options).channels};
  if (options.model == models::airbench_small) plan.width = {32, 64, 128};
  return plan;
}

}  // namespace eqt::model
