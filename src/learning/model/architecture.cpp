// SPDX-License-Identifier: Apache-2.0
#include "model/architecture.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "core/error.hpp"
#include "data/text/text_input.hpp"
#include "model/norm_kernels.hpp"
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

bool are_small(const data::ImageShape& images) {
  return std::max(images.height, images.width) <= kSmallImages;
}

/// The nearest multiple of 8 channels that is at least nine tenths of `channels`, as in the
/// authors' code.
std::int64_t in_eights(double channels) {
  const auto whole = static_cast<std::int64_t>(channels + 4);
  const std::int64_t nearest = std::max<std::int64_t>(8, whole / 8 * 8);
  return static_cast<double>(nearest) < 0.9 * channels ? nearest + 8 : nearest;
}

/// A row of a table of the papers: `count` equal blocks of which the first has the stride.
struct MobileRow {
  std::int64_t kernel = 3, out = 0, count = 1, stride = 1;
  std::int64_t factor = 0;    // of the channels in the middle; or
  std::int64_t expanded = 0;  // their number
  bool squeezes = false;
  Activation activation = Activation::relu6;
};

/// Says how a library calls the layers of a block.
enum class MobileNames : std::uint8_t { v2, v3, timm };

struct BlockPlace {
  std::size_t row;  // of the table
  std::int64_t i;   // in the row
  std::size_t all;  // in the network
};

/// Gives the layers of a block their paths.
void name_layers(MobileNames names, const BlockPlace& place, MobileBlock& block) {
  if (names == MobileNames::timm) {
    const std::string base = "blocks." + std::to_string(place.row) + "." + std::to_string(place.i);
    const auto named = [&](MobileLayer& layer, const char* convolution, const char* norm) {
      layer.convolution = base + convolution;
      layer.norm = base + norm;
    };
    if (block.widen) named(*block.widen, ".conv_pw", ".bn1");
    named(block.filter, ".conv_dw", block.widen ? ".bn2" : ".bn1");
    named(block.narrow, block.widen ? ".conv_pwl" : ".conv_pw", block.widen ? ".bn3" : ".bn2");
    return;
  }
  const std::string base = "features." + std::to_string(place.all + 1) +
                           (names == MobileNames::v2 ? ".conv." : ".block.");
  int number = 0;
  const auto paired = [&](MobileLayer& layer) {
    layer.convolution = base + std::to_string(number) + ".0";
    layer.norm = base + std::to_string(number++) + ".1";
  };
  if (block.widen) paired(*block.widen);
  paired(block.filter);
  if (block.squeezed > 0) block.squeeze = base + std::to_string(number++);
  if (names == MobileNames::v3) return paired(block.narrow);
  block.narrow.convolution = base + std::to_string(number++);
  block.narrow.norm = base + std::to_string(number);
}

MobileBlock mobile_block(const MobileRow& row, std::int64_t in, std::int64_t stride) {
  const std::int64_t expanded = row.expanded > 0 ? row.expanded : in * row.factor;
  MobileBlock block = {.widen = {},
                       .filter = {.in = expanded,
                                  .out = expanded,
                                  .kernel = row.kernel,
                                  .stride = stride,
                                  .activation = row.activation,
                                  .depthwise = true},
                       .squeeze = {},
                       .squeezed = row.squeezes ? in_eights(static_cast<double>(expanded / 4)) : 0,
                       .narrow = {.in = expanded, .out = row.out},
                       .adds = stride == 1 && in == row.out};
  if (expanded != in) block.widen = {.in = in, .out = expanded, .activation = row.activation};
  return block;
}

/// Adds the blocks of the table. @pre plan.stem is complete
void add_blocks(MobilePlan& plan, MobileNames names, std::vector<MobileRow> rows, bool small) {
  if (small) {
    plan.stem.stride = 1;
    std::ranges::find(rows, 2, &MobileRow::stride)->stride = 1;
  }
  std::int64_t channels = plan.stem.out;
  for (std::size_t row = 0; row < rows.size(); ++row) {
    for (std::int64_t i = 0; i < rows[row].count; ++i) {
      plan.blocks.push_back(mobile_block(rows[row], channels, i == 0 ? rows[row].stride : 1));
      name_layers(names, {row, i, plan.blocks.size() - 1}, plan.blocks.back());
      channels = rows[row].out;
    }
  }
}

MobilePlan mobilenet_v2(const data::ImageShape& images, double width) {
  const auto wide = [&](int channels) { return in_eights(channels * width); };
  MobilePlan plan;
  plan.stem = {.convolution = "features.0.0",
               .norm = "features.0.1",
               .in = images.channels,
               .out = wide(32),
               .kernel = 3,
               .stride = 2,
               .activation = Activation::relu6};
  add_blocks(plan, MobileNames::v2,
             {{.kernel = 3, .out = wide(16), .count = 1, .stride = 1, .factor = 1},
              {.kernel = 3, .out = wide(24), .count = 2, .stride = 2, .factor = 6},
              {.kernel = 3, .out = wide(32), .count = 3, .stride = 2, .factor = 6},
              {.kernel = 3, .out = wide(64), .count = 4, .stride = 2, .factor = 6},
              {.kernel = 3, .out = wide(96), .count = 3, .stride = 1, .factor = 6},
              {.kernel = 3, .out = wide(160), .count = 3, .stride = 2, .factor = 6},
              {.kernel = 3, .out = wide(320), .count = 1, .stride = 1, .factor = 6}},
             are_small(images));
  // Section 6.1 of the paper: networks of less width keep the last layer.
  plan.last = {.convolution = "features.18.0",
               .norm = "features.18.1",
               .in = wide(320),
               .out = in_eights(1280 * std::max(1.0, width)),
               .activation = Activation::relu6};
  plan.classifier = "classifier.1";
  plan.norm_epsilon = kNormEpsilon;
  plan.norm_share = kBatchNormMomentum;
  return plan;
}

MobilePlan mobilenet_v3_small(const data::ImageShape& images, double width) {
  const auto wide = [&](int channels) { return in_eights(channels * width); };
  constexpr auto kRelu = Activation::relu, kSwish = Activation::hard_swish;
  MobilePlan plan;
  plan.stem = {.convolution = "features.0.0",
               .norm = "features.0.1",
               .in = images.channels,
               .out = wide(16),
               .kernel = 3,
               .stride = 2,
               .activation = kSwish};
  const auto row = [&](int kernel, int expanded, int out, bool squeezes, Activation activation,
                       int stride) {
    return MobileRow{.kernel = kernel,
                     .out = wide(out),
                     .count = 1,
                     .stride = stride,
                     .expanded = wide(expanded),
                     .squeezes = squeezes,
                     .activation = activation};
  };
  add_blocks(plan, MobileNames::v3,
             {row(3, 16, 16, true, kRelu, 2), row(3, 72, 24, false, kRelu, 2),
              row(3, 88, 24, false, kRelu, 1), row(5, 96, 40, true, kSwish, 2),
              row(5, 240, 40, true, kSwish, 1), row(5, 240, 40, true, kSwish, 1),
              row(5, 120, 48, true, kSwish, 1), row(5, 144, 48, true, kSwish, 1),
              row(5, 288, 96, true, kSwish, 2), row(5, 576, 96, true, kSwish, 1),
              row(5, 576, 96, true, kSwish, 1)},
             are_small(images));
  plan.last = {.convolution = "features.12.0",
               .norm = "features.12.1",
               .in = wide(96),
               .out = 6 * wide(96),
               .activation = kSwish};
  plan.hidden = "classifier.0";
  plan.hidden_width = wide(1024);
  plan.classifier = "classifier.3";
  plan.norm_epsilon = 1e-3;
  plan.norm_share = 0.01;
  return plan;
}

MobilePlan efficientnet_lite0(const data::ImageShape& images) {
  MobilePlan plan;
  plan.stem = {.convolution = "conv_stem",
               .norm = "bn1",
               .in = images.channels,
               .out = 32,
               .kernel = 3,
               .stride = 2,
               .activation = Activation::relu6};
  add_blocks(plan, MobileNames::timm,
             {{.kernel = 3, .out = 16, .count = 1, .stride = 1, .factor = 1},
              {.kernel = 3, .out = 24, .count = 2, .stride = 2, .factor = 6},
              {.kernel = 5, .out = 40, .count = 2, .stride = 2, .factor = 6},
              {.kernel = 3, .out = 80, .count = 3, .stride = 2, .factor = 6},
              {.kernel = 5, .out = 112, .count = 3, .stride = 1, .factor = 6},
              {.kernel = 5, .out = 192, .count = 4, .stride = 2, .factor = 6},
              {.kernel = 3, .out = 320, .count = 1, .stride = 1, .factor = 6}},
             are_small(images));
  // The authors' code: later blocks are dropped more often, the last one nearly by kMobileDropout.
  const auto blocks = static_cast<double>(plan.blocks.size());
  for (std::size_t i = 0; i < plan.blocks.size(); ++i)
    if (plan.blocks[i].adds) plan.blocks[i].drop = kMobileDropout * static_cast<double>(i) / blocks;
  plan.last = {.convolution = "conv_head",
               .norm = "bn2",
               .in = 320,
               .out = 1280,
               .activation = Activation::relu6};
  plan.classifier = "classifier";
  plan.norm_epsilon = kNormEpsilon;
  plan.norm_share = kBatchNormMomentum;
  plan.of_timm = true;
  return plan;
}

/// The array of the texts' tokens.
const data::ArraySpec& tokens_of(const ModelOptions& options) {
  const auto found = std::ranges::find(options.inputs, data::kTokens, &data::ArraySpec::name);
  const bool texts = found != options.inputs.end() && found->type == data::ElementType::int64 &&
                     found->shape.size() == 1 && found->bound > 0;
  if (texts) return *found;
  fail(Kind::usage,
       "model {}: expected texts or tokens as its input, found {}; set data.name to \"text\", "
       "task.kind to \"language-model\" or another model.name",
       options.model->name, data::text_of(options.inputs));
}

EncoderShape encoder_shape(const ModelOptions& options, const data::ArraySpec& tokens) {
  EncoderShape shape = options.encoder.value_or(EncoderShape{});
  if (shape.vocabulary == 0) shape.vocabulary = tokens.bound;
  const auto longest = static_cast<std::int64_t>(tokens.values());
  if (shape.positions == 0) shape.positions = longest;
  if (shape.intermediate == 0) shape.intermediate = 4 * shape.hidden;
  check_encoder_shape(shape, "model");
  if (tokens.bound > shape.vocabulary)
    fail(Kind::usage,
         "expected data of at most the {} tokens that the network of model.path {} has, found {}; "
         "leave data.vocabulary out to take the folder's own, or number arrays as it does",
         shape.vocabulary, options.path, tokens.bound);
  if (longest > shape.positions)
    fail(Kind::usage,
         "expected samples of at most the {} tokens that the network of model.path {} takes, found "
         "{}; lower data.max_length, or write shorter samples",
         shape.positions, options.path, longest);
  return shape;
}

}  // namespace

void draw_dropout(const RandomKey& key, std::uint32_t layer, double share, std::span<float> mask) {
  const RandomStream random(key, layer);
  const auto bound = static_cast<float>(share), kept = static_cast<float>(1 / (1 - share));
  for (std::size_t i = 0; i < mask.size(); ++i)
    mask[i] = random.uniform(static_cast<std::uint32_t>(i)) < bound ? 0.0f : kept;
}

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

int vit_patch(int longer_side) { return longer_side <= kSmallImages ? 4 : 16; }

std::optional<MobilePlan> mobile_plan(const ModelOptions& options) {
  if (options.model == models::mobilenet_v2) return mobilenet_v2(images_of(options), options.width);
  if (options.model == models::mobilenet_v3_small)
    return mobilenet_v3_small(images_of(options), options.width);
  if (options.model == models::efficientnet_lite0) return efficientnet_lite0(images_of(options));
  return {};
}

std::optional<VitPlan> vit_plan(const ModelOptions& options) {
  const bool tiny = options.model == models::vit_tiny;
  if (!tiny && options.model != models::vit_small) return {};
  const data::ImageShape images = images_of(options);
  const Frame frame = frame_of(*options.model, images);
  const int height = images.height + frame.top + frame.bottom;
  const int width = images.width + frame.left + frame.right;
  const int patch = vit_patch(std::max(height, width));
  if (height % patch != 0 || width % patch != 0) {
    fail(Kind::usage,
         "model {}: expected images whose sides are multiples of {} pixels, found {}x{}; set "
         "data.image_size or data.resize to one",
         options.model->name, patch, height, width);
  }
  return VitPlan{.hidden = tiny ? 192 : 384,
                 .layers = 12,
                 .heads = tiny ? 3 : 6,
                 .patch = patch,
                 .rows = height / patch,
                 .columns = width / patch};
}

EncoderPlan encoder_plan(const ModelOptions& options) {
  return {.shape = encoder_shape(options, tokens_of(options)),
          .next_token = options.task.kind->target == data::TargetKind::tokens};
}

}  // namespace eqt::model
