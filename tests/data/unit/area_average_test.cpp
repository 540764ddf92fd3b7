// SPDX-License-Identifier: Apache-2.0
#include "data/known_images.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <string>

#include "core/error.hpp"
#include "core/random.hpp"
#include "data/catalogue.hpp"
#include "support/catch.hpp"
#include "support/pictures.hpp"
#include "support/refusal.hpp"

using namespace eqt;
using namespace eqt::data;

namespace {

LabelledBytes random_pictures(std::size_t count, ImageShape shape) {
  LabelledBytes pictures{{}, {}, shape, 10};
  const RandomStream stream({23, 0, 0, 0});
  for (std::uint32_t i = 0; i < count * shape.values(); ++i)
    pictures.pixels.push_back(static_cast<std::uint8_t>(stream.bounded(i, 256)));
  for (std::size_t i = 0; i < count; ++i)
    pictures.labels.push_back(static_cast<std::uint8_t>(i % 10));
  return pictures;
}

/// By definition: the integral of the picture, constant in each pixel, over the area, in fp64.
double mean_over(const std::uint8_t* picture, ImageShape shape, double top, double left,
                 double height, double width, int channel) {
  double sum = 0;
  for (int y = 0; y < shape.height; ++y) {
    for (int x = 0; x < shape.width; ++x) {
      const double rows = std::min(top + height, y + 1.0) - std::max<double>(top, y);
      const double columns = std::min(left + width, x + 1.0) - std::max<double>(left, x);
      if (rows > 0 && columns > 0)
        sum += rows * columns * picture[(y * shape.width + x) * shape.channels + channel];
    }
  }
  return sum / (height * width);
}

}  // namespace

TEST_CASE("area averages are the integral over the area that a pixel covers", "[data]") {
  const ImageShape shape =
      GENERATE(ImageShape{3, 32, 32}, ImageShape{1, 28, 28}, ImageShape{3, 12, 9});
  const int side = GENERATE(1, 7, 8, 9);
  const LabelledBytes pictures = random_pictures(3, shape), smaller = area_average(pictures, side);
  REQUIRE(smaller.shape == ImageShape{shape.channels, side, side});
  REQUIRE(smaller.labels == pictures.labels);
  REQUIRE(smaller.classes == pictures.classes);
  REQUIRE(smaller.pixels.size() == 3 * smaller.shape.values());
  const double height = static_cast<double>(shape.height) / side,
               width = static_cast<double>(shape.width) / side;
  std::size_t at = 0;
  for (std::size_t i = 0; i < 3; ++i) {
    for (int y = 0; y < side; ++y) {
      for (int x = 0; x < side; ++x) {
        for (int c = 0; c < shape.channels; ++c) {
          const double mean = mean_over(pictures.pixels.data() + i * shape.values(), shape,
                                        y * height, x * width, height, width, c);
          REQUIRE(std::abs(smaller.pixels[at++] - mean) <= 0.5 + 1e-9);
        }
      }
    }
  }
}

TEST_CASE("halves are rounded upwards, and pictures of their own size stay as they are", "[data]") {
  const LabelledBytes pictures{.pixels = {0, 1, 1, 0, 255, 255, 255, 254},
                               .labels = {0, 1},
                               .shape = {1, 2, 2},
                               .classes = 2};
  REQUIRE(area_average(pictures, 1).pixels == std::vector<std::uint8_t>{1, 255});
  REQUIRE(area_average(pictures, 2).pixels == pictures.pixels);
}

TEST_CASE("a set is resized with its border, and never made larger", "[data]") {
  DatasetOptions options{
      .set = sets::synthetic, .limit_train = 400, .limit_test = 10, .resize = 16};
  REQUIRE(sets::synthetic.look(options).inputs == std::vector{image_spec({3, 16, 16})});
  const DatasetPair small = open_dataset(options);
  options.resize = 0;
  const DatasetPair large = open_dataset(options);
  Batch original, resized;
  const std::array<std::size_t, 1> one{7};
  large.test->read(one, std::nullopt, original);
  small.test->read(one, std::nullopt, resized);
  const auto from = test::images_in(original), to = test::images_in(resized);
  REQUIRE(to.size() == from.size() / 4);
  // Normalised values of synthetic pictures are (byte / 255 - 0.5) / 0.25.
  const double step = 1 / (255 * 0.25);
  for (std::size_t y = 0; y < 16; ++y) {
    for (std::size_t i = 0; i < 48; ++i) {
      const std::size_t x = i / 3, c = i % 3, at = (2 * y * 32 + 2 * x) * 3 + c;
      const double mean = (from[at] + from[at + 3] + from[at + 96] + from[at + 99]) / 4.0;
      REQUIRE(std::abs(to[y * 48 + i] - mean) <= 0.51 * step);
    }
  }
  // A border of 2 pixels: crops move by up to 2, so 5 x 5 positions are drawn, and no other.
  int farthest = 0;
  for (std::size_t sample = 0; sample < 400; ++sample)
    farthest = std::max(farthest, draw_crop({1, 0}, sample, 2).top);
  REQUIRE(farthest == 4);
  small.train->read(one, AugmentKey{1, 0}, resized);
  REQUIRE(test::images_in(resized).size() == to.size());

  options.resize = 33;
  REQUIRE(test::says(test::refusal(Kind::usage, [&] { open_dataset(options); }), "data.resize"));
}
