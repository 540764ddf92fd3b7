// SPDX-License-Identifier: Apache-2.0
#include "data/known_images.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/error.hpp"

namespace eqt::data {
namespace {

/// Part of an original row or column that one of the result covers, in 1/side of its pixels.
struct Part {
  std::size_t at = 0;
  std::uint32_t weight = 0;
};

/// The parts that each of `side` rows or columns covers of `length`; the weights of one add up to
/// `length`.
std::vector<std::vector<Part>> parts_of(std::size_t length, std::size_t side) {
  std::vector<std::vector<Part>> parts(side);
  for (std::size_t i = 0; i < side; ++i) {
    const std::size_t first = i * length,
                      last = first + length;  // pixel `at` is side * [at, at + 1)
    for (std::size_t at = first / side; at * side < last; ++at) {
      const std::size_t covered = std::min(last, (at + 1) * side) - std::max(first, at * side);
      parts[i].push_back({at, static_cast<std::uint32_t>(covered)});
    }
  }
  return parts;
}

/// The mean of one channel over an area: half of it is added before the division, to round.
std::uint8_t mean_over(const std::uint8_t* picture, const ImageShape& shape,
                       const std::vector<Part>& rows, const std::vector<Part>& columns,
                       std::size_t channel) {
  const auto width = static_cast<std::size_t>(shape.width);
  const auto channels = static_cast<std::size_t>(shape.channels);
  const auto area = static_cast<std::uint64_t>(shape.height) * width;
  std::uint64_t sum = area / 2;
  for (const Part& y : rows) {
    for (const Part& x : columns)
      sum +=
          std::uint64_t{y.weight} * x.weight * picture[(y.at * width + x.at) * channels + channel];
  }
  return static_cast<std::uint8_t>(sum / area);
}

}  // namespace

LabelledBytes area_average(const LabelledBytes& pictures, int side) {
  const ImageShape from = pictures.shape;
  EQT_CHECK(side > 0 && side <= from.height && side <= from.width, "side {} of {} x {}", side,
            from.height, from.width);
  LabelledBytes smaller{{}, pictures.labels, {from.channels, side, side}, pictures.classes};
  smaller.pixels.resize(smaller.labels.size() * smaller.shape.values());
  const auto channels = static_cast<std::size_t>(from.channels);
  const auto rows = parts_of(static_cast<std::size_t>(from.height), static_cast<std::size_t>(side));
  const auto columns =
      parts_of(static_cast<std::size_t>(from.width), static_cast<std::size_t>(side));
  std::uint8_t* out = smaller.pixels.data();
  for (std::size_t i = 0; i < smaller.labels.size(); ++i) {
    const std::uint8_t* const picture = pictures.pixels.data() + i * from.values();
    for (const auto& row : rows) {
      for (const auto& column : columns) {
        for (std::size_t c = 0; c < channels; ++c)
          *out++ = mean_over(picture, from, row, column, c);
      }
    }
  }
  return smaller;
}

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

/// Shifts in proportion to the pictures.
/// @throws Error{usage} for a border that cannot be reflected
Augmentation augmentation_of(const KnownImages& set, const ImageShape& shape,
                             const DatasetOptions& options) {
  Augmentation scaled = options.augmentation;
  if (scaled.shift == 0) return scaled;
  scaled.shift =
      std::max(1, (2 * scaled.shift * shape.height + set.shape.height) / (2 * set.shape.height));
  if (scaled.border == Border::reflect && scaled.shift >= shape.height)
    fail(Kind::usage,
         "data.border: expected a shift below the side of the pictures with \"reflect\", found {} "
         "for pictures of {} pixels; lower data.shift",
         scaled.shift, shape.height);
  return scaled;
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
  const Augmentation augmentation = augmentation_of(set, shape, options);
  const auto open = [&](LabelledBytes& pictures) {
    if (shape != set.shape) pictures = area_average(pictures, shape.height);
    return std::make_unique<ImageSet>(std::move(pictures), normalization, augmentation);
  };
  return {options.needs_train ? open(samples.train) : nullptr, open(samples.test), normalization,
          std::vector<std::string>(set.class_names.begin(), set.class_names.end())};
}

}  // namespace eqt::data
