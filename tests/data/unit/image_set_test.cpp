// SPDX-License-Identifier: Apache-2.0
#include "data/image_set.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "core/error.hpp"
#include "core/random.hpp"
#include "support/catch.hpp"
#include "support/pictures.hpp"

using namespace eqt;
using namespace eqt::data;
using test::images_in;
using test::labels_in;

namespace {

const Normalization kColour{{0.4914, 0.4822, 0.4465}, {0.2470, 0.2435, 0.2616}};
const Normalization kGrey{{0.2860}, {0.3530}};
/// Keeps bytes, up to rounding: (v / 255 - 0) / (1 / 255).
const Normalization kBytes3{{0, 0, 0}, {1.0 / 255, 1.0 / 255, 1.0 / 255}};
const Normalization kBytes1{{0}, {1.0 / 255}};

LabelledBytes random_images(std::size_t count, ImageShape shape) {
  LabelledBytes data;
  data.shape = shape;
  data.classes = 10;
  const RandomStream stream({17, 0, 0, 0});
  std::uint32_t draw = 0;
  for (std::size_t i = 0; i < count; ++i) {
    data.labels.push_back(static_cast<std::uint8_t>(i % 10));
    for (std::size_t v = 0; v < shape.values(); ++v) {
      // No black inside, so that the padding can be distinguished from the image.
      data.pixels.push_back(static_cast<std::uint8_t>(1 + stream.bounded(draw++, 255)));
    }
  }
  return data;
}

std::vector<int> to_bytes(const Batch& batch) {
  std::vector<int> bytes;
  for (const float value : images_in(batch)) bytes.push_back(static_cast<int>(std::lround(value)));
  return bytes;
}

/// Definition, pixel by pixel: pad with black, cut, mirror.
std::vector<int> crop_by_definition(const LabelledBytes& data, std::size_t sample, int top,
                                    int left, bool flip) {
  const auto [channels, height, width] = data.shape;
  std::vector<int> out;
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x) {
      const int row = y + top - 4, column = (flip ? width - 1 - x : x) + left - 4;
      const bool inside = row >= 0 && row < height && column >= 0 && column < width;
      for (int c = 0; c < channels; ++c) {
        const auto at = sample * data.shape.values() +
                        static_cast<std::size_t>((row * width + column) * channels + c);
        out.push_back(inside ? data.pixels[at] : 0);
      }
    }
  }
  return out;
}

}  // namespace

TEST_CASE("pixels are normalised per channel", "[images]") {
  LabelledBytes data;
  data.shape = {3, 1, 2};
  data.classes = 10;
  data.labels = {7};
  data.pixels = {0, 0, 0, 255, 128, 51};
  const ImageSet set(data, kColour);
  Batch batch;
  set.read(std::array<std::size_t, 1>{0}, std::nullopt, batch);
  REQUIRE(labels_in(batch).size() == 1);
  REQUIRE(labels_in(batch)[0] == 7);
  REQUIRE(image_shape(batch) == data.shape);
  REQUIRE(batch.inputs[0].shape == std::vector<std::int64_t>{1, 1, 2, 3});
  REQUIRE(images_in(batch).size() == 6);
  // By hand: (v / 255 - mean) / deviation.
  const std::array<double, 6> expected = {-1.989474, -1.980287, -1.706804,
                                          2.059109,  0.081153,  -0.942278};
  for (std::size_t i = 0; i < 6; ++i)
    REQUIRE(images_in(batch)[i] == Approx(expected[i]).margin(2e-6));

  LabelledBytes grey;
  grey.shape = {1, 1, 2};
  grey.classes = 10;
  grey.labels = {3};
  grey.pixels = {0, 255};
  ImageSet(grey, kGrey).read(std::array<std::size_t, 1>{0}, std::nullopt, batch);
  REQUIRE(images_in(batch).size() == 2);
  REQUIRE(images_in(batch)[0] == Approx(-0.810198).margin(2e-6));
  REQUIRE(images_in(batch)[1] == Approx(2.022663).margin(2e-6));
}

TEST_CASE("samples are read in the requested order, with repetitions", "[images]") {
  const auto data = random_images(5, {3, 4, 6});
  const ImageSet set(data, kBytes3);
  const std::vector<std::size_t> indices = {4, 0, 4, 2};
  Batch batch;
  set.read(indices, std::nullopt, batch);
  REQUIRE(batch.size() == 4);
  const auto bytes = to_bytes(batch);
  for (std::size_t i = 0; i < 4; ++i) {
    REQUIRE(labels_in(batch)[i] == data.labels[indices[i]]);
    for (std::size_t v = 0; v < 72; ++v) {
      REQUIRE(bytes[i * 72 + v] == data.pixels[indices[i] * 72 + v]);
    }
  }
  REQUIRE_THROWS_AS(set.read(std::array<std::size_t, 1>{5}, std::nullopt, batch), Error);
}

TEST_CASE("an augmented image is one crop of the padded image", "[images]") {
  const bool colour = GENERATE(true, false);
  // Height differs from width, and the second width is smaller than the padding.
  const ImageShape shape = colour ? ImageShape{3, 7, 9} : ImageShape{1, 8, 3};
  const auto data = random_images(60, shape);
  const ImageSet set(data, colour ? kBytes3 : kBytes1);
  Batch batch;
  int mirrored = 0;
  for (std::size_t sample = 0; sample < 60; ++sample) {
    set.read(std::array{sample}, AugmentKey{3, 11}, batch);
    const auto bytes = to_bytes(batch);
    const Crop crop = draw_crop({3, 11}, sample);
    REQUIRE(bytes == crop_by_definition(data, sample, crop.top, crop.left, crop.flip));
    mirrored += crop.flip;
  }
  REQUIRE(mirrored > 10);
  REQUIRE(mirrored < 50);
}

TEST_CASE("a reflecting border shows the picture beyond its edge", "[images]") {
  LabelledBytes data;
  data.shape = {1, 2, 4};
  data.classes = 10;
  data.labels = {0};
  data.pixels = {10, 20, 30, 40, 50, 60, 70, 80};
  const auto read = [&](Crop wanted) {
    // The key of the epoch in which this crop is drawn.
    AugmentKey key{5, 0};
    const auto differs = [&] {
      const Crop crop = draw_crop(key, 0, 1);
      return crop.top != wanted.top || crop.left != wanted.left || crop.flip != wanted.flip;
    };
    while (differs()) ++key.epoch;
    Batch batch;
    ImageSet(data, kBytes1, {.shift = 1, .border = Border::reflect})
        .read(std::array<std::size_t, 1>{0}, key, batch);
    return to_bytes(batch);
  };
  using Bytes = std::vector<int>;
  CHECK(read({1, 1, false}) == Bytes{10, 20, 30, 40, 50, 60, 70, 80});
  CHECK(read({0, 0, false}) == Bytes{60, 50, 60, 70, 20, 10, 20, 30});
  CHECK(read({2, 2, false}) == Bytes{60, 70, 80, 70, 20, 30, 40, 30});
  CHECK(read({2, 2, true}) == Bytes{70, 80, 70, 60, 30, 40, 30, 20});
}

TEST_CASE("alternating flips show each picture both ways in two epochs", "[images]") {
  int mirrored = 0;
  for (std::size_t sample = 0; sample < 1000; ++sample) {
    const bool first = draw_crop({7, 0}, sample, 2, Flips::alternating).flip;
    for (std::uint64_t epoch = 1; epoch < 5; ++epoch)
      REQUIRE(draw_crop({7, epoch}, sample, 2, Flips::alternating).flip ==
              (epoch % 2 == 0 ? first : !first));
    mirrored += first;
    REQUIRE_FALSE(draw_crop({7, 3}, sample, 2, Flips::none).flip);
  }
  CHECK(mirrored > 420);  // five standard deviations
  CHECK(mirrored < 580);
}

TEST_CASE("crops are uniform over offsets and mirroring", "[images]") {
  const int samples = 16200;
  std::array<int, 162> counts{};
  for (std::size_t sample = 0; sample < samples; ++sample) {
    const Crop crop = draw_crop({1, 0}, sample);
    REQUIRE((crop.top >= 0 && crop.top <= 8 && crop.left >= 0 && crop.left <= 8));
    ++counts.at(static_cast<std::size_t>((crop.top * 9 + crop.left) * 2 + crop.flip));
  }
  // Chi-square with 161 degrees of freedom: mean 161, standard deviation 17.9; five of them.
  double chi_square = 0;
  for (const int count : counts) chi_square += (count - 100.0) * (count - 100.0) / 100.0;
  REQUIRE(chi_square < 161 + 5 * 17.9);
}

TEST_CASE("the crop of a sample depends only on seed, epoch and sample", "[images]") {
  const auto data = random_images(12, {3, 8, 8});
  const ImageSet set(data, kColour);
  const std::size_t values = data.shape.values();
  std::vector<std::size_t> all(12);
  std::iota(all.begin(), all.end(), std::size_t{0});
  Batch together, alone, other;
  set.read(all, AugmentKey{1, 2}, together);
  for (std::size_t sample = 0; sample < 12; ++sample) {
    set.read(std::array{sample}, AugmentKey{1, 2}, alone);
    const auto from = images_in(together).begin() + static_cast<std::ptrdiff_t>(sample * values);
    REQUIRE(std::equal(images_in(alone).begin(), images_in(alone).end(), from));
  }
  set.read(all, AugmentKey{1, 3}, other);
  REQUIRE_FALSE(std::ranges::equal(images_in(other), images_in(together)));
  set.read(all, AugmentKey{2, 2}, other);
  REQUIRE_FALSE(std::ranges::equal(images_in(other), images_in(together)));
}

TEST_CASE("a batch that is large enough is filled without allocating", "[images]") {
  const auto data = random_images(8, {3, 8, 8});
  const ImageSet set(data, kColour);
  Batch batch;
  set.read(std::array<std::size_t, 4>{0, 1, 2, 3}, AugmentKey{1, 0}, batch);
  const float* images = images_in(batch).data();
  const std::int64_t* labels = labels_in(batch).data();
  set.read(std::array<std::size_t, 3>{4, 5, 6}, AugmentKey{1, 1}, batch);
  set.read(std::array<std::size_t, 4>{7, 6, 5, 4}, std::nullopt, batch);
  REQUIRE(images_in(batch).data() == images);
  REQUIRE(labels_in(batch).data() == labels);
}
