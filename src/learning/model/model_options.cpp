// SPDX-License-Identifier: Apache-2.0
#include "model/model_options.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/error.hpp"
#include "core/pattern.hpp"

namespace eqt::model {
namespace {

constexpr int kFramedSide = 32;  // [pixels] smaller images are framed with zeros

void check_images(const ModelOptions& options) {
  const auto [channels, height, width] = images_of(options);
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
}

void check_task(const ModelOptions& options) {
  const ModelRow& model = *options.model;
  const TaskRow& task = *options.task.kind;
  const bool places = task.target == data::TargetKind::tokens;  // an output for each of them
  if (model.images_only && (places || task.own_loss)) {
    fail(Kind::usage,
         "model {}: expected a task with an output for each picture, found task.kind \"{}\"; set "
         "model.name to \"{}\"",
         model.name, task.name, models::torchscript.name);
  }
  if (options.outputs < task.least_outputs) {
    fail(Kind::usage, "model {}: expected at least {} {}, found {}", model.name, task.least_outputs,
         task.target == data::TargetKind::classes ? "classes" : "outputs", options.outputs);
  }
  const auto is_float = [](const data::ArraySpec& input) {
    return input.type == data::ElementType::float32;
  };
  if (options.task.mixup > 0 && !std::ranges::all_of(options.inputs, is_float)) {
    fail(
        Kind::usage,
        "train.mixup: expected inputs of floats, of which a mixture has a meaning, found {}; leave "
        "it out",
        data::text_of(options.inputs));
  }
  const std::size_t weights = options.task.class_weights.size();
  if (weights > 0 && weights != static_cast<std::size_t>(options.outputs)) {
    fail(Kind::usage, "task.class_weights: expected {} numbers, one for each class, found {}",
         options.outputs, weights);
  }
}

void check_choices(const ModelOptions& options) {
  const ModelRow& model = *options.model;
  if (options.shortcut == Shortcut::padding && !model.pads_shortcuts) {
    fail(Kind::usage, "model.shortcut: 'padding' is for CIFAR ResNets, found {}; use 'projection'",
         model.name);
  }
  if (options.precision == Precision::int8 && model.torch_only) {
    fail(Kind::usage,
         "model.precision: expected \"fp32\" or \"bf16\" for {}, whose operations are not "
         "convolutions of this program, found \"int8\"; leave it out",
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
  const bool is_linear = options.normalization == normalizations::batchnorm ||
                         options.normalization == normalizations::groupnorm;
  if (model.linear_bottlenecks && !is_linear) {
    fail(Kind::usage,
         "model.normalization: expected \"batchnorm\" or \"groupnorm\" for {}, whose blocks end "
         "without an activation, found \"{}\"; take one of these",
         model.name, options.normalization->name);
  }
}

void fill(const data::ArraySpec& spec, std::size_t size, data::Array& array) {
  std::vector<std::int64_t> shape = spec.shape;
  for (std::int64_t& extent : shape)
    if (extent < 0) extent = spec.longest;
  switch (spec.type) {
    case data::ElementType::float32:
      std::ranges::fill(array.prepare<float>(spec, size, shape), 0.0f);
      break;
    case data::ElementType::uint8:
      std::ranges::fill(array.prepare<std::uint8_t>(spec, size, shape), std::uint8_t{1});
      break;
    case data::ElementType::int64:
      std::ranges::fill(array.prepare<std::int64_t>(spec, size, shape), std::int64_t{1});
      break;
  }
}

}  // namespace

void check_options(const ModelOptions& options) {
  if (options.model->images_only) check_images(options);
  check_task(options);
  check_choices(options);
}

data::ImageShape images_of(const ModelOptions& options) {
  if (const auto shape = data::image_shape(options.inputs)) return *shape;
  fail(Kind::usage,
       "model {}: expected pictures as the only input, found {}; set model.name to \"{}\"",
       options.model->name, data::text_of(options.inputs), models::torchscript.name);
}

ModelOptions published_options(const ModelRow& model) {
  const auto& [images, classes] = model.published;
  return {.model = model,
          .inputs = {data::image_spec(images)},
          .target = data::class_spec(classes),
          .outputs = classes};
}

void Replica::predict(const data::Batch&, data::Array&) {
  fail(Kind::bug, "this replica has no network that could predict");
}

std::string Replica::safetensors(const Metadata&) const {
  fail(Kind::bug, "this replica has no weights that could be saved");
}

Frame frame_of(const ModelRow& model, const data::ImageShape& images) {
  if (!model.images_only) return {};
  const int longer = std::max(images.height, images.width);
  const int side = longer <= model.least_side ? model.least_side : kFramedSide;
  const int rows = std::max(0, side - images.height);
  const int columns = std::max(0, side - images.width);
  return {rows / 2, rows - rows / 2, columns / 2, columns - columns / 2};
}

std::int64_t groups_for(const NormalizationRow& kind, int groups, std::int64_t channels) {
  if (kind.groups == 0) {
    if (groups == 0) return 0;
    fail(Kind::usage, "model.norm_groups: expected 0 for {}, which has no groups, found {}",
         kind.name, groups);
  }
  const std::int64_t count = groups == 0 ? kind.groups : groups;
  if (count < 1 || channels % count != 0) {
    fail(Kind::usage,
         "model.normalization {}: expected groups that divide a layer's channels, found {} groups "
         "of {} channels; choose another model.norm_groups, or batchnorm",
         kind.name, count, channels);
  }
  return count;
}

std::vector<bool> frozen_parameters(std::span<const std::string> names,
                                    std::span<const std::string> patterns) {
  for (const std::string& pattern : patterns) {
    const auto matched = [&](const std::string& name) { return matches(pattern, name); };
    if (std::ranges::any_of(names, matched)) continue;
    fail(Kind::usage,
         "model.freeze: expected patterns that match the name of a parameter, found \"{}\"; the "
         "names are {} and so on to {}",
         pattern, names.front(), names.back());
  }
  std::vector<bool> frozen;
  for (const std::string& name : names) frozen.push_back(matches_any(patterns, name));
  return frozen;
}

void check_trains(std::size_t trained, std::size_t parameters) {
  if (trained > 0) return;
  fail(Kind::usage,
       "model.freeze: expected at least one parameter to train, found all {} frozen; freeze fewer",
       parameters);
}

void check_keeps_statistics(bool keeps) {
  if (keeps) return;
  fail(Kind::usage,
       "model.frozen_norms: expected with \"running\" a normalization with running statistics of "
       "which model.freeze names all parameters, found none; freeze its layer or leave it out");
}

data::Batch example_batch(const ModelOptions& options, std::size_t size) {
  data::Batch batch;
  batch.inputs.resize(options.inputs.size());
  for (std::size_t i = 0; i < batch.inputs.size(); ++i)
    fill(options.inputs[i], size, batch.inputs[i]);
  if (options.target) fill(*options.target, size, batch.targets);
  return batch;
}

}  // namespace eqt::model
