// SPDX-License-Identifier: Apache-2.0
#include "data/pictures/framing.hpp"

#include <cmath>

#include "support/catch.hpp"
#include "support/picture_files.hpp"

using namespace eqt::data;
using namespace eqt::test;

TEST_CASE("crops are those of Szegedy et al.", "[framing]") {
  // For a square picture all draws fit in nearly every try, so area and ratio have their own laws.
  constexpr int kSide = 1000, kDraws = 20000;
  double area_sum = 0, log_ratio_sum = 0, left_sum = 0, rest_sum = 0;
  int mirrored = 0, odd = 0;
  for (std::size_t sample = 0; sample < kDraws; ++sample) {
    const DrawnCrop crop = draw_resized_crop({7, 3}, sample, kSide, kSide);
    const PixelArea& a = crop.area;
    REQUIRE(a.left >= 0);
    REQUIRE(a.top >= 0);
    REQUIRE(a.left + a.width <= kSide);
    REQUIRE(a.top + a.height <= kSide);
    const double area = static_cast<double>(a.width) * a.height / (kSide * kSide);
    const double ratio = static_cast<double>(a.width) / a.height;
    REQUIRE(area > 0.079);
    REQUIRE(ratio > 0.745);
    REQUIRE(ratio < 1.34);
    area_sum += area;
    log_ratio_sum += std::log(ratio);
    left_sum += a.left;
    rest_sum += (kSide - a.width) / 2.0;
    mirrored += crop.mirrored ? 1 : 0;
    odd += a.left % 2;
  }
  // An area a fits with a ratio e^u where a <= e^-|u|, so the mean of those that fit is, over u
  // from 0 to L = ln(4/3): 1/2 int(e^-2u - 0.08^2) / int(e^-u - 0.08)
  const double most = std::log(4.0 / 3);
  const double mean = 0.5 * (7.0 / 32 - 0.0064 * most) / (0.25 - 0.08 * most);
  REQUIRE(area_sum / kDraws == Approx(mean).margin(0.01));
  REQUIRE(log_ratio_sum / kDraws == Approx(0).margin(0.005));
  REQUIRE(left_sum / rest_sum == Approx(1).margin(0.02));
  REQUIRE(mirrored / static_cast<double>(kDraws) == Approx(0.5).margin(0.02));
  REQUIRE(odd / static_cast<double>(kDraws) == Approx(0.5).margin(0.03));
}

TEST_CASE("a crop is a function of seed, epoch and sample", "[framing]") {
  const auto crop = [](std::uint64_t seed, std::uint64_t epoch, std::size_t sample) {
    return draw_resized_crop({seed, epoch}, sample, 500, 375).area;
  };
  REQUIRE(crop(1, 2, 3) == crop(1, 2, 3));
  REQUIRE(!(crop(1, 2, 3) == crop(2, 2, 3)));
  REQUIRE(!(crop(1, 2, 3) == crop(1, 3, 3)));
  REQUIRE(!(crop(1, 2, 3) == crop(1, 2, 4)));
  // Beyond 2^32 draws
  REQUIRE(!(crop(1, 2, 3) == crop(1, 2, 3 + (std::size_t{1} << 27))));
}

TEST_CASE("a picture too long for any crop is cut in the middle", "[framing]") {
  const PixelArea wide = draw_resized_crop({1, 1}, 5, 1000, 10).area;
  REQUIRE(wide == PixelArea{493, 0, 13, 10});  // 10 x 4/3 = 13.3
  const PixelArea high = draw_resized_crop({1, 1}, 5, 10, 1000).area;
  REQUIRE(high == PixelArea{0, 493, 10, 13});
  REQUIRE(draw_resized_crop({1, 1}, 5, 1, 1).area == PixelArea{0, 0, 1, 1});
}

TEST_CASE("tests show the middle of the resized picture", "[framing]") {
  const PictureFraming framing = framing_of(3, 224, CropKind::automatic);
  REQUIRE(framing.resize == 256);
  REQUIRE(framing.crop == CropKind::resized);
  // 500 x 375 becomes 341 x 256, of which 224 x 224 at 58 (58.5 to even), 16 are shown.
  const Sampling s = centre_of(framing, 500, 375);
  REQUIRE(s.left == Approx(58 * 500 / 341.0));
  REQUIRE(s.width == Approx(224 * 500 / 341.0));
  REQUIRE(s.top == Approx(16 * 375 / 256.0));
  REQUIRE(s.height == Approx(224 * 375 / 256.0));
  REQUIRE(s.bounds.left <= s.left - 1.4);
  REQUIRE(s.bounds.left + s.bounds.width >= s.left + s.width + 1.4);

  const PictureFraming small = framing_of(1, 28, CropKind::automatic);
  REQUIRE(small.resize == 28);
  REQUIRE(small.crop == CropKind::padded);
  const Sampling all = centre_of(small, 28, 28);
  REQUIRE(all.left == 0);
  REQUIRE(all.width == 28);
  REQUIRE(all.bounds == PixelArea{0, 0, 28, 28});
  REQUIRE(framing_of(3, 64, CropKind::automatic).resize == 73);
  REQUIRE(framing_of(3, 32, CropKind::resized).crop == CropKind::resized);
}

TEST_CASE("a picture is prepared as a test sample", "[framing]") {
  const TestPicture picture = make_scene(28, 28, 1);
  const Normalization normalization{{0.2860}, {0.3530}};
  PicturePreparation preparation(framing_of(1, 28, CropKind::automatic), normalization);
  std::vector<float> image(28 * 28);
  for (const Bytes& file : {png_of(picture), png_of(picture, {.depth = 16})}) {
    preparation.prepare(file, image);
    for (std::size_t i = 0; i < image.size(); ++i)
      REQUIRE(image[i] == static_cast<float>((picture.pixels[i] / 255.0 - 0.2860) / 0.3530));
  }
  // Three channels, each with its own mean
  PicturePreparation colours({.channels = 3, .size = 8, .resize = 8}, {{0.1, 0.2, 0.3}, {1, 2, 4}});
  std::vector<float> values(8 * 8 * 3);
  colours.prepare(png_of(make_picture(16, 16, 3, [](int, int, int c) { return 51 * c; })), values);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::size_t c = i % 3;
    REQUIRE(values[i] == Approx((0.2 * static_cast<double>(c) - 0.1 * static_cast<double>(c + 1)) /
                                static_cast<double>(1 << c)));
  }
}
