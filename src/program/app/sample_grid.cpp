// SPDX-License-Identifier: Apache-2.0
#include "app/sample_grid.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <vector>

#include "core/error.hpp"

namespace eqt::app {
namespace {

constexpr std::size_t kSide = 8;
constexpr std::uint8_t kWhite = 255;

struct Range {
  float least = std::numeric_limits<float>::max();
  float most = std::numeric_limits<float>::lowest();

  std::uint8_t shade(float v) const {
    if (!(most > least)) return 0;
    return static_cast<std::uint8_t>(std::lround(255 * (v - least) / (most - least)));
  }
};

std::vector<Range> ranges_of(std::span<const float> images, std::size_t channels) {
  std::vector<Range> ranges(channels);
  for (std::size_t i = 0; i < images.size(); ++i) {
    Range& range = ranges[i % channels];
    range.least = std::min(range.least, images[i]);
    range.most = std::max(range.most, images[i]);
  }
  return ranges;
}

}  // namespace

bool has_samples_to_show(const data::Batch& batch) {
  const auto shape = data::image_shape(batch);
  return shape && batch.size() > 0 && shape->values() > 0 &&
         (shape->channels == 1 || shape->channels == 3);
}

metrics::ImageRecord sample_grid(const data::Batch& batch) {
  EQT_CHECK(has_samples_to_show(batch), "a grid of no pictures");
  const data::ImageShape shape = *data::image_shape(batch);
  const std::span<const float> images = batch.inputs.front().get<float>();
  const auto channels = static_cast<std::size_t>(shape.channels);
  const auto height = static_cast<std::size_t>(shape.height);
  const auto width = static_cast<std::size_t>(shape.width);
  const std::size_t shown = std::min(batch.size(), kSide * kSide);
  const std::size_t columns = std::min(shown, kSide), rows = (shown + kSide - 1) / kSide;
  const std::size_t grid_width = columns * (width + 1) - 1, grid_height = rows * (height + 1) - 1;
  const std::vector<Range> ranges = ranges_of(images, channels);

  std::vector<std::uint8_t> pixels(grid_height * grid_width * channels, kWhite);
  for (std::size_t image = 0; image < shown; ++image) {
    const std::size_t top = image / kSide * (height + 1), left = image % kSide * (width + 1);
    for (std::size_t y = 0; y < height; ++y) {
      const float* from = images.data() + (image * height + y) * width * channels;
      std::uint8_t* to = pixels.data() + ((top + y) * grid_width + left) * channels;
      for (std::size_t i = 0; i < width * channels; ++i) {
        to[i] = ranges[i % channels].shade(from[i]);
      }
    }
  }
  return {.step = 0,
          .name = "samples",
          .width = static_cast<int>(grid_width),
          .height = static_cast<int>(grid_height),
          .channels = shape.channels,
          .pixels = std::move(pixels)};
}

}  // namespace eqt::app
