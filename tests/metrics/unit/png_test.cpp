// SPDX-License-Identifier: Apache-2.0
#include "metrics/event_bytes.hpp"

#include <png.h>

#include <cstdint>
#include <string>
#include <vector>

#include "support/catch.hpp"

using namespace eqt::metrics;

namespace {

struct Read {
  png_uint_32 width = 0, height = 0;
  bool colour = false;
  std::vector<std::uint8_t> pixels;  // (h, w, c)
};

/// An image read by libpng.
Read read(const std::string& png) {
  REQUIRE(png.substr(0, 8) == "\x89PNG\r\n\x1a\n");
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  REQUIRE(png_image_begin_read_from_memory(&image, png.data(), png.size()) != 0);
  const bool colour = (image.format & PNG_FORMAT_FLAG_COLOR) != 0;
  CHECK((image.format & (PNG_FORMAT_FLAG_ALPHA | PNG_FORMAT_FLAG_LINEAR)) == 0);
  std::vector<std::uint8_t> pixels(PNG_IMAGE_SIZE(image));
  REQUIRE(png_image_finish_read(&image, nullptr, pixels.data(), 0, nullptr) != 0);
  return {image.width, image.height, colour, pixels};
}

}  // namespace

TEST_CASE("a colour image is read back from its PNG", "[png]") {
  const ImageRecord image = {
      .step = 0,
      .name = "i",
      .width = 2,
      .height = 3,
      .channels = 3,
      .pixels = {1, 2, 3, 4, 5, 6, 7, 8, 9, 0, 0, 0, 13, 14, 15, 16, 17, 255}};
  const Read back = read(png_of(image));
  CHECK(back.width == 2);
  CHECK(back.height == 3);
  CHECK(back.colour);
  CHECK(back.pixels == image.pixels);
}

TEST_CASE("a grey image of an odd width is read back from its PNG", "[png]") {
  const ImageRecord image = {
      .step = 0, .name = "i", .width = 3, .height = 1, .channels = 1, .pixels = {0, 128, 255}};
  const Read back = read(png_of(image));
  CHECK(back.width == 3);
  CHECK(back.height == 1);
  CHECK_FALSE(back.colour);
  CHECK(back.pixels == image.pixels);
}
