// SPDX-License-Identifier: Apache-2.0
#include "data/known_images.hpp"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/error.hpp"
#include "data/area_average.hpp"

namespace eqt::data {
namespace {

void keep_first(LabelledBytes& data, std::size_t limit, std::string_view key) {
  const std::size_t count = data.labels.size();
  require_limit(limit, count, key);
  if (limit == 0 || limit == count) return;
  data.labels.resize(limit);
  data.pixels.resize(limit * data.shape.values());
  data.pixels.shrink_to_fit();
}

Normalization normalization_of(const KnownImages& set) {
  const auto channels = static_cast<std::size_t>(set.shape.channels);
  const auto by_channel = [&](std::span<const double> values) {
    const auto used = values.first(channels);
    return std::vector<double>(used.begin(), used.end());
  };
  return {by_channel(set.mean), by_channel(set.deviation)};
}

/// Samples that keep_first() copies; all of them are not copied.
std::uint64_t copied(std::size_t limit, std::size_t all) {
  return limit == 0 || limit >= all ? 0 : limit;
}

/// The pictures' shape when they are resized.
/// @throws Error{usage}: they would become larger
ImageShape shape_of(const KnownImages& set, const DatasetOptions& options) {
  const int side = options.resize;
  if (side == 0) return set.shape;
  if (const int most = std::min(set.shape.height, set.shape.width); side > most) {
    fail(Kind::usage,
         "data.resize: expected at most {}, the side of the pictures of {}, found {}; 0 leaves "
         "them as "
         "they are",
         most, options.set->name, side);
  }
  return {set.shape.channels, side, side};
}

/// The border of the crop, in proportion to the pictures.
int padding_of(const KnownImages& set, const ImageShape& shape) {
  return std::max(1, (2 * kCropPadding * shape.height + set.shape.height) / (2 * set.shape.height));
}

}  // namespace

DatasetFacts look_at_known(const KnownImages& set, const DatasetOptions& options) {
  const ImageShape shape = shape_of(set, options);
  const std::size_t all = set.train + set.test;
  const std::uint64_t samples =
      all + copied(options.limit_train, set.train) + copied(options.limit_test, set.test);
  return {.inputs = {image_spec(shape)},
          .target = class_spec(set.classes),
          .classes = set.classes,
          .train = set.train,
          .test = set.test,
          .memory_bytes = samples * (set.shape.values() + 1) +
                          (shape == set.shape ? 0 : all * (shape.values() + 1))};
}

DatasetPair open_known(const KnownImages& set, const DatasetOptions& options) {
  LabelledSets samples = set.read(options);
  if (options.needs_train) keep_first(samples.train, options.limit_train, "data.limit_train");
  keep_first(samples.test, options.limit_test, "data.limit_test");
  const Normalization normalization = normalization_of(set);
  const ImageShape shape = shape_of(set, options);
  const int padding = padding_of(set, shape);
  const auto open = [&](LabelledBytes& pictures) {
    if (shape != set.shape) pictures = area_average(pictures, shape.height);
    return std::make_unique<ImageSet>(std::move(pictures), normalization, padding);
  };
  return {options.needs_train ? open(samples.train) : nullptr, open(samples.test), normalization,
          std::vector<std::string>(set.class_names.begin(), set.class_names.end())};
}

}  // namespace eqt::data
