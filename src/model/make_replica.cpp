// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "core/error.hpp"
#include "model/network.hpp"
#include "model/torch_errors.hpp"
#include "model/torch_replica.hpp"

namespace eqt::model {
namespace {

constexpr int kMinSide = 32;  // [pixels] smaller images are framed with zeros
constexpr int kMaxClasses = 1 << 20;

void check_input(const ModelOptions& options) {
  const auto [channels, height, width] = options.input;
  const ModelRow& model = *options.model;
  const int side = std::max(height, width);
  if (channels < 1 || height < 1 || width < 1 || side > kLargestSide) {
    fail(Kind::usage,
         "model {}: expected images of 1 to {} pixels a side, found {}x{}x{} (c, h, w)", model.name,
         kLargestSide, channels, height, width);
  }
  if (side > model.largest_side) {
    fail(Kind::usage,
         "model {}: expected images of at most {} pixels a side, found {}x{}; choose {}",
         model.name, model.largest_side, height, width, models::resnet18.name);
  }
  if (options.classes < 2 || options.classes > kMaxClasses) {
    fail(Kind::usage, "model {}: expected 2 to {} classes, found {}", model.name, kMaxClasses,
         options.classes);
  }
}

void check_options(const ModelOptions& options) {
  const ModelRow& model = *options.model;
  if (options.shortcut == Shortcut::padding && !model.pads_shortcuts) {
    fail(Kind::usage, "model.shortcut: 'padding' is for CIFAR ResNets, found {}; use 'projection'",
         model.name);
  }
  const bool as_ever =
      options.normalization == normalizations::batchnorm && options.norm_groups == 0;
  if (!model.normalizes && !as_ever) {
    fail(Kind::usage,
         "model.normalization: expected none for {}, which has no normalization layers, found "
         "\"{}\" with model.norm_groups {}; leave both out or set model.name to vgg11",
         model.name, options.normalization->name, options.norm_groups);
  }
}

std::shared_ptr<Network> make_network(const ModelOptions& options) {
#define EQT_MODEL(id, ...) \
  if (options.model == models::id) return make_##id(options);
#include "model/models.def"
  fail(Kind::bug, "no network is called {}", options.model->name);
}

/// A layer that cannot cut images of this size into chunks fails here, before training.
void try_image(Replica& replica, const data::ImageShape& shape) {
  replica.evaluate({.images = std::vector<float>(shape.values()), .labels = {0}, .shape = shape});
}

}  // namespace

ModelOptions published_options(const ModelRow& model) {
  return {.model = model, .input = model.published.images, .classes = model.published.classes};
}

Frame frame_of(const ModelRow& model, const data::ImageShape& images) {
  if (model.users_own) return {};
  const int rows = std::max(0, kMinSide - images.height);
  const int columns = std::max(0, kMinSide - images.width);
  return {rows / 2, rows - rows / 2, columns / 2, columns - columns / 2};
}

std::unique_ptr<Replica> make_replica(const ModelOptions& options) {
  check_input(options);
  check_options(options);
  return guarded("building a network", [&] {
    auto replica =
        make_torch_replica(make_network(options), {.images = options.input,
                                                   .frame = frame_of(*options.model, options.input),
                                                   .classes = options.classes,
                                                   .seed = options.seed,
                                                   .rank = options.rank});
    if (options.normalization->needs_chunks || options.model->users_own)
      try_image(*replica, options.input);
    return replica;
  });
}

}  // namespace eqt::model
