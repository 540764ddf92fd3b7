// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>

#include "core/error.hpp"
#include "model/torch_errors.hpp"
#include "model/torch_replica.hpp"

namespace eqt::model {
namespace {

constexpr int kLeastSide = 32;    // [pixels] smaller images are framed with zeros
constexpr int kSmallImages = 64;  // [pixels] up to this side ResNet-18 to 50 take the 3x3 stem
constexpr int kLargestSide = 1024;
constexpr int kMostClasses = 1 << 20;

struct Entry {
  std::string_view name;
  std::string_view about;
  std::array<int, 4> blocks;  // per stage; three stages: a network for small images
  bool bottleneck;
  PlainPlan (*plain)() = nullptr;  // a network without shortcuts: no blocks, images of any size
  bool small_images() const { return plain == nullptr && blocks[3] == 0; }
};

// He et al., CVPR 2016: section 4.2 (6n + 2 layers, n blocks a stage) and table 1. "resnet54" is
// what the low-precision literature calls the network with n = 8, which has 50 layers.
constexpr std::array kModels{
    Entry{"resnet20",
          "CIFAR ResNet, 3 stages of 3 basic blocks, 0.27 M parameters",
          {3, 3, 3, 0},
          false},
    Entry{"resnet54",
          "CIFAR ResNet, 3 stages of 8 basic blocks, 0.76 M parameters",
          {8, 8, 8, 0},
          false},
    Entry{"resnet56",
          "CIFAR ResNet, 3 stages of 9 basic blocks, 0.86 M parameters",
          {9, 9, 9, 0},
          false},
    Entry{"resnet110",
          "CIFAR ResNet, 3 stages of 18 basic blocks, 1.73 M parameters",
          {18, 18, 18, 0},
          false},
    Entry{"resnet18",
          "ResNet of basic blocks, 11.2 M parameters; 3x3 stem up to 64 pixels",
          {2, 2, 2, 2},
          false},
    Entry{"resnet34",
          "ResNet of basic blocks, 21.3 M parameters; 3x3 stem up to 64 pixels",
          {3, 4, 6, 3},
          false},
    Entry{"resnet50",
          "ResNet of bottleneck blocks, 23.5 M parameters; 3x3 stem up to 64 pixels",
          {3, 4, 6, 3},
          true},
    Entry{"vgg11",
          "VGG-11 with normalization, dropout and 2 linear layers, 9.49 M parameters",
          {},
          false,
          vgg11_plan},
    Entry{"alexnet",
          "AlexNet for CIFAR, no normalization, 1 linear layer, 2.47 M parameters",
          {},
          false,
          alexnet_plan},
};

const Entry& find_model(std::string_view name) {
  const auto found = std::ranges::find(kModels, name, &Entry::name);
  if (found != kModels.end()) return *found;
  std::string names;
  for (const Entry& entry : kModels) names += ' ' + std::string(entry.name);
  fail(Kind::usage, "model.name must be one of{}, found \"{}\"", names, name);
}

void check_options(const ModelOptions& options, const Entry& entry) {
  const auto [channels, height, width] = options.input;
  if (channels < 1 || height < 1 || width < 1 || std::max(height, width) > kLargestSide) {
    fail(Kind::usage,
         "model {}: expected images of 1 to {} pixels a side, found {}x{}x{} (c, h, w)", entry.name,
         kLargestSide, channels, height, width);
  }
  if (entry.small_images() && std::max(height, width) > kSmallImages) {
    fail(Kind::usage,
         "model {}: expected images of at most {} pixels a side, found {}x{}; choose resnet18",
         entry.name, kSmallImages, height, width);
  }
  if (options.classes < 2 || options.classes > kMostClasses) {
    fail(Kind::usage, "model {}: expected 2 to {} classes, found {}", entry.name, kMostClasses,
         options.classes);
  }
  if (options.shortcut != "projection" && options.shortcut != "padding") {
    fail(Kind::usage, "model.shortcut: expected 'projection' or 'padding', found '{}'",
         options.shortcut);
  }
  if (options.shortcut == "padding" && !entry.small_images()) {
    fail(Kind::usage, "model.shortcut: 'padding' is for CIFAR ResNets, found {}; use 'projection'",
         entry.name);
  }
}

/// Range normalization is that of low-precision training, whose VGG has no bias in convolutions:
/// the shift of the normalization does its work.
bool wants_bias(const std::string& normalization) { return !normalization.starts_with("range-"); }

PlainPlan plain_plan(const ModelOptions& options, const Entry& entry) {
  PlainPlan plan = entry.plain();
  plan.channels = options.input.channels;
  plan.classes = options.classes;
  if (plan.normalization) {
    plan.normalization = {options.normalization, options.norm_groups};
    plan.bias = wants_bias(options.normalization);
  } else if (options.normalization != ModelOptions{}.normalization || options.norm_groups != 0) {
    fail(Kind::usage,
         "model.normalization: expected none for {}, which has no normalization layers, found "
         "\"{}\" with model.norm_groups {}; leave both out or set model.name to vgg11",
         entry.name, options.normalization, options.norm_groups);
  }
  return plan;
}

ResNetPlan resnet_plan(const ModelOptions& options, const Entry& entry) {
  const bool small = entry.small_images();
  ResNetPlan plan;
  plan.blocks.assign(entry.blocks.begin(), entry.blocks.end() - (small ? 1 : 0));
  plan.width =
      small ? std::vector<std::int64_t>{16, 32, 64} : std::vector<std::int64_t>{64, 128, 256, 512};
  plan.bottleneck = entry.bottleneck;
  plan.projection = options.shortcut == "projection";
  plan.large_stem = std::max(options.input.height, options.input.width) > kSmallImages;
  plan.normalization = {options.normalization, options.norm_groups};
  plan.channels = options.input.channels;
  plan.classes = options.classes;
  return plan;
}

/// Runs one image, so that a layer that cannot cut images of this size into chunks fails before
/// training.
void try_image(Replica& replica, const data::ImageShape& shape) {
  replica.evaluate({.images = std::vector<float>(shape.values()), .labels = {0}, .shape = shape});
}

std::shared_ptr<Network> make_network(const ModelOptions& options, const Entry& entry) {
  return entry.plain == nullptr ? make_resnet(resnet_plan(options, entry), options.seed)
                                : make_plain_network(plain_plan(options, entry), options.seed);
}

}  // namespace

std::vector<ModelInfo> list_models() {
  std::vector<ModelInfo> models;
  for (const Entry& e : kModels) models.push_back({std::string(e.name), std::string(e.about)});
  return models;
}

ModelOptions published_options(const std::string& name) {
  const Entry& entry = find_model(name);
  if (entry.small_images() || entry.plain != nullptr)
    return {.name = name, .input = {3, 32, 32}, .classes = 10};
  return {.name = name, .input = {3, 224, 224}, .classes = 1000};
}

Frame frame_of(const data::ImageShape& images) {
  const int rows = std::max(0, kLeastSide - images.height);
  const int columns = std::max(0, kLeastSide - images.width);
  return {rows / 2, rows - rows / 2, columns / 2, columns - columns / 2};
}

std::unique_ptr<Replica> make_replica(const ModelOptions& options) {
  const Entry& entry = find_model(options.name);
  check_options(options, entry);
  return guarded("building a network", [&] {
    auto replica =
        make_torch_replica(make_network(options, entry), {.images = options.input,
                                                          .frame = frame_of(options.input),
                                                          .classes = options.classes,
                                                          .seed = options.seed,
                                                          .rank = options.rank});
    if (options.normalization == "range-evonorm") try_image(*replica, options.input);
    return replica;
  });
}

}  // namespace eqt::model
