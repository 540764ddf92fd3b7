// SPDX-License-Identifier: Apache-2.0
#include "data/pictures/resize.hpp"

#include <cmath>
#include <numeric>

#include "support/catch.hpp"
#include "support/picture_files.hpp"
#include "support/simd_targets.hpp"

using namespace eqt::data;
using namespace eqt::test;

namespace {

PicturePart part_of(const TestPicture& picture) {
  return {.pixels = picture.pixels,
          .channels = picture.channels,
          .height = picture.height,
          .width = picture.width};
}

Bytes resized(const PicturePart& from, const Sampling& sampling, int height, int width,
              bool mirrored = false) {
  Bytes out(static_cast<std::size_t>(height * width * from.channels));
  Resizer().resize(from, sampling, height, width, mirrored, out.data());
  return out;
}

Sampling whole(const PicturePart& part) {
  return {0,
          0,
          static_cast<double>(part.width),
          static_cast<double>(part.height),
          {0, 0, part.width, part.height}};
}

/// The definition, in double precision, without separating rows and columns.
double sample(const TestPicture& picture, const Sampling& s, int height, int width, int x, int y,
              int c) {
  const auto weights = [](double begin, double length, int outputs, int i, int lower, int upper) {
    const double scale = length / outputs, support = std::max(1.0, scale);
    const double centre = begin + (i + 0.5) * scale;
    std::vector<std::pair<int, double>> found;
    double sum = 0;
    for (int p = lower; p < upper; ++p) {
      const double w = std::max(0.0, 1 - std::abs(p + 0.5 - centre) / support);
      if (w > 0) found.emplace_back(p, w), sum += w;
    }
    for (auto& [p, w] : found) w /= sum;
    return found;
  };
  double value = 0;
  const PixelArea& b = s.bounds;
  for (const auto& [py, wy] : weights(s.top, s.height, height, y, b.top, b.top + b.height))
    for (const auto& [px, wx] : weights(s.left, s.width, width, x, b.left, b.left + b.width))
      value += wy * wx * picture.at(px, py, c);
  return value;
}

}  // namespace

TEST_CASE("the same size gives the same pixels", "[resize]") {
  for (const int channels : {1, 3}) {
    const TestPicture picture = make_scene(28, 19, channels);
    const PicturePart part = part_of(picture);
    REQUIRE(resized(part, whole(part), 19, 28) == picture.pixels);
    const Bytes mirrored = resized(part, whole(part), 19, 28, true);
    for (int y = 0; y < 19; ++y)
      for (int x = 0; x < 28; ++x)
        for (int c = 0; c < channels; ++c)
          REQUIRE(mirrored[static_cast<std::size_t>((y * 28 + x) * channels + c)] ==
                  picture.at(27 - x, y, c));
  }
}

TEST_CASE("resized pixels are the triangle filter's", "[resize]") {
  struct Case {
    int width, height;  // of the picture
    Sampling sampling;
    int out_height, out_width;
  };
  const std::vector<Case> cases = {
      {64, 48, {0, 0, 64, 48, {0, 0, 64, 48}}, 24, 32},            // half
      {64, 48, {0, 0, 64, 48, {0, 0, 64, 48}}, 7, 5},              // far down
      {13, 9, {0, 0, 13, 9, {0, 0, 13, 9}}, 40, 31},               // up
      {64, 48, {10, 5, 30, 20, {10, 5, 30, 20}}, 16, 16},          // a crop, cut at its edges
      {64, 48, {10.25, 5.5, 30.5, 20.75, {4, 2, 50, 40}}, 9, 11},  // between pixels
      {64, 48, {3, 4, 1, 1, {3, 4, 1, 1}}, 8, 8},                  // one pixel
      {1, 1, {0, 0, 1, 1, {0, 0, 1, 1}}, 3, 3},
      {300, 2, {0, 0, 300, 2, {0, 0, 300, 2}}, 6, 6}};
  for (const Case& test : cases) {
    for (const int channels : {1, 3}) {
      const TestPicture picture = make_scene(test.width, test.height, channels);
      const Bytes out = resized(part_of(picture), test.sampling, test.out_height, test.out_width);
      for (int y = 0; y < test.out_height; ++y)
        for (int x = 0; x < test.out_width; ++x)
          for (int c = 0; c < channels; ++c) {
            const double expected =
                sample(picture, test.sampling, test.out_height, test.out_width, x, y, c);
            INFO(test.width << " x " << test.height << " pixel " << x << ", " << y);
            REQUIRE(
                std::abs(out[static_cast<std::size_t>((y * test.out_width + x) * channels + c)] -
                         expected) <= 0.5 + 1e-3);
          }
    }
  }
}

TEST_CASE("a part stands for the picture that it is cut from and reduced", "[resize]") {
  // A ramp: reducing it by 2 gives a ramp, whose samples are those of the whole.
  const TestPicture ramp = make_picture(128, 64, 3, [](int x, int y, int) { return x + y; });
  PicturePart half = {
      .pixels = {}, .channels = 3, .height = 20, .width = 40, .left = 10, .top = 5, .reduction = 2};
  for (int y = 0; y < 20; ++y)
    for (int x = 0; x < 40; ++x)
      for (int c = 0; c < 3; ++c)
        half.pixels.push_back(static_cast<std::uint8_t>(2 * (x + 10) + 2 * (y + 5) + 1));
  const Sampling sampling{24, 14, 60, 28, {20, 10, 80, 40}};
  const Bytes a = resized(part_of(ramp), sampling, 10, 12), b = resized(half, sampling, 10, 12);
  for (std::size_t i = 0; i < a.size(); ++i) REQUIRE(std::abs(a[i] - b[i]) <= 1);
}

TEST_CASE("resized pixels are the same on every instruction set", "[resize]") {
  const PicturePart part = part_of(make_scene(123, 77));
  const PicturePart grey = part_of(make_scene(123, 77, 1));
  const Bytes expected = resized(part, whole(part), 50, 61);
  const Bytes expected_grey = resized(grey, whole(grey), 50, 61);
  eqt::test::for_each_simd_target([&] {
    REQUIRE(resized(part, whole(part), 50, 61) == expected);
    REQUIRE(resized(grey, whole(grey), 50, 61) == expected_grey);
  });
}

TEST_CASE("weights add to 1 and stay in bounds", "[resize]") {
  Taps taps;
  for (const double length : {0.5, 1.0, 3.7, 100.0, 5000.0}) {
    for (const int outputs : {1, 3, 224}) {
      taps.make(1000.3, length, 990, 6100, outputs);
      for (int i = 0; i < outputs; ++i) {
        const auto own = std::span(taps.weights)
                             .subspan(static_cast<std::size_t>(i * taps.most),
                                      static_cast<std::size_t>(taps.most));
        REQUIRE(std::accumulate(own.begin(), own.end(), 0.0) == Approx(1).margin(1e-5));
        REQUIRE(taps.first[static_cast<std::size_t>(i)] >= 990);
        REQUIRE(taps.first[static_cast<std::size_t>(i)] + taps.most <= 6100);
      }
    }
  }
}
