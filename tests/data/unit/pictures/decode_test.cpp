// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <span>

#include "data/pictures/picture.hpp"
#include "support/catch.hpp"
#include "support/picture_files.hpp"
#include "support/refusal.hpp"

using namespace eqt;
using namespace eqt::data;
using namespace eqt::test;

namespace {

PicturePart decode(const Bytes& file, const PixelArea& area, int channels = 3,
                   int min_side = 1000) {
  PicturePart part;
  open_picture(file)->decode(area, min_side, channels, part);
  return part;
}

PicturePart decode_all(const Bytes& file, int channels = 3, int min_side = 1000) {
  const auto picture = open_picture(file);
  PicturePart part;
  picture->decode({0, 0, picture->width(), picture->height()}, min_side, channels, part);
  return part;
}

/// The value of the picture's pixel (x, y), which must be in the part.
int value_at(const PicturePart& part, int x, int y, int c) {
  REQUIRE(x >= part.left);
  REQUIRE(y >= part.top);
  REQUIRE(x < part.left + part.width);
  REQUIRE(y < part.top + part.height);
  return part.pixels[static_cast<std::size_t>(
      ((y - part.top) * part.width + x - part.left) * part.channels + c)];
}

/// Largest difference of a value in `area`.
int difference(const PicturePart& a, const PicturePart& b, const PixelArea& area) {
  int most = 0;
  for (int y = area.top; y < area.top + area.height; ++y)
    for (int x = area.left; x < area.left + area.width; ++x)
      for (int c = 0; c < a.channels; ++c)
        most = std::max(most, std::abs(value_at(a, x, y, c) - value_at(b, x, y, c)));
  return most;
}

/// The CRC of PNG's chunks (ISO 3309), bit by bit.
std::uint32_t png_crc(std::span<const std::uint8_t> bytes) {
  std::uint32_t crc = 0xFFFFFFFF;
  for (const std::uint8_t byte : bytes) {
    crc ^= byte;
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1u ^ (crc % 2 != 0 ? 0xEDB88320u : 0u);
  }
  return ~crc;
}

std::string reason_of(const Bytes& file, const PictureLimits& limits = {}) {
  return refusal(Kind::data, [&] {
    const auto picture = open_picture(file, limits);
    PicturePart part;
    picture->decode({0, 0, picture->width(), picture->height()}, 1, 3, part);
  });
}

}  // namespace

TEST_CASE("PNG and lossless WebP give the pixels that were written", "[picture]") {
  const TestPicture colours = make_scene(37, 23);
  const TestPicture grey = make_scene(37, 23, 1);
  const auto same = [](const PicturePart& part, const TestPicture& picture) {
    REQUIRE(part.width == picture.width);
    REQUIRE(part.height == picture.height);
    REQUIRE(part.reduction == 1);
    REQUIRE(part.pixels == picture.pixels);
  };
  same(decode_all(png_of(colours)), colours);
  same(decode_all(png_of(colours, {.interlaced = true})), colours);
  same(decode_all(png_of(colours, {.depth = 16})), colours);  // both bytes equal: v 257 is v
  same(decode_all(png_of(grey), 1), grey);
  same(decode_all(png_of(grey, {.depth = 16, .interlaced = true}), 1), grey);
  same(decode_all(webp_of(colours)), colours);

  const PixelArea area{5, 7, 11, 9};
  for (const Bytes& file :
       {png_of(colours), png_of(colours, {.interlaced = true}), webp_of(colours)})
    REQUIRE(difference(decode(file, area), decode_all(png_of(colours)), area) == 0);
}

TEST_CASE("a PNG of several frames is refused, one of a single frame is a picture", "[picture]") {
  const TestPicture picture = make_scene(5, 4);
  const auto with_frames = [&](std::uint8_t frames) {
    Bytes file = png_of(picture);
    // A chunk acTL behind IHDR's 8 + 25 bytes: its length, name, two numbers and their CRC.
    Bytes chunk = {0, 0, 0, 8, 'a', 'c', 'T', 'L', 0, 0, 0, frames, 0, 0, 0, 0};
    const std::uint32_t crc = png_crc({chunk.data() + 4, chunk.size() - 4});
    for (const int shift : {24, 16, 8, 0}) chunk.push_back(static_cast<std::uint8_t>(crc >> shift));
    file.insert(file.begin() + 33, chunk.begin(), chunk.end());
    return file;
  };
  says(reason_of(with_frames(2)), "found an animation");
  REQUIRE(decode_all(with_frames(1)).pixels == picture.pixels);
}

TEST_CASE("no memory is taken for a chunk that goes beyond the file", "[picture]") {
  Bytes file = png_of(make_scene(5, 4));
  const Bytes chunk = {0x40, 0, 0, 0, 'e', 'X', 'I', 'f', 'M', 'M', 0, 42};  // a GiB, it says
  file.insert(file.begin() + 33, chunk.begin(), chunk.end());
  says(reason_of(file), "beyond the file");
}

TEST_CASE("PNG of few bits and palettes", "[picture]") {
  for (const int depth : {1, 2, 4}) {
    const int most = (1 << depth) - 1;
    const TestPicture levels =
        make_picture(9, 5, 1, [&](int x, int y, int) { return (x + y) & most; });
    const PicturePart part = decode_all(png_of(levels, {.depth = depth}), 1);
    for (int y = 0; y < 5; ++y)
      for (int x = 0; x < 9; ++x)
        REQUIRE(value_at(part, x, y, 0) == levels.at(x, y, 0) * 255 / most);
  }
  const TestPicture entries = make_picture(6, 4, 1, [](int x, int y, int) { return 4 * y + x; });
  const PicturePart part =
      decode_all(png_of(entries, {.depth = 8, .palette = true, .transparent = 3}));
  for (int y = 0; y < 4; ++y) {
    for (int x = 0; x < 6; ++x) {
      const int i = 4 * y + x;
      const bool gone = i == 3;
      REQUIRE(value_at(part, x, y, 0) == (gone ? 255 : i));
      REQUIRE(value_at(part, x, y, 1) == (gone ? 255 : 255 - i));
      REQUIRE(value_at(part, x, y, 2) == (gone ? 255 : i / 2));
    }
  }
}

TEST_CASE("what is transparent lies on white", "[picture]") {
  // value and alpha by place
  const TestPicture soft = make_picture(
      16, 16, 4, [](int x, int y, int c) { return c == 3 ? 17 * y : (17 * x + 40 * c) % 256; });
  for (const Bytes& file : {png_of(soft), webp_of(soft)}) {
    const PicturePart part = decode_all(file);
    for (int y = 0; y < 16; ++y) {
      for (int x = 0; x < 16; ++x) {
        for (int c = 0; c < 3; ++c) {
          const double alpha = 17 * y / 255.0;
          // What is wholly transparent may have any colour in WebP.
          const double expected = alpha * soft.at(x, y, c) + (1 - alpha) * 255;
          REQUIRE(std::abs(value_at(part, x, y, c) - expected) <= 0.51);
        }
      }
    }
  }
  const TestPicture grey =
      make_picture(4, 4, 2, [](int x, int, int c) { return c == 1 ? 85 * x : 30; });
  const PicturePart part = decode_all(png_of(grey), 1);
  for (int x = 0; x < 4; ++x)
    REQUIRE(std::abs(value_at(part, x, 0, 0) - (30 * x / 3.0 + 255 * (3 - x) / 3.0)) <= 0.51);
}

TEST_CASE("colours become grey by ITU-R 601, grey becomes three equal colours", "[picture]") {
  const TestPicture colours = make_scene(20, 10);
  const auto expected = [&](int x, int y) {
    return 0.299 * colours.at(x, y, 0) + 0.587 * colours.at(x, y, 1) + 0.114 * colours.at(x, y, 2);
  };
  const PicturePart png = decode_all(png_of(colours), 1), webp = decode_all(webp_of(colours), 1);
  const PicturePart jpeg = decode_all(jpeg_of(colours, {.quality = 100}), 1);
  REQUIRE(png.channels == 1);
  for (int y = 0; y < 10; ++y) {
    for (int x = 0; x < 20; ++x) {
      REQUIRE(std::abs(value_at(png, x, y, 0) - expected(x, y)) <= 0.51);
      REQUIRE(value_at(webp, x, y, 0) == value_at(png, x, y, 0));
      REQUIRE(std::abs(value_at(jpeg, x, y, 0) - expected(x, y)) <= 2.5);
    }
  }
  const TestPicture grey = make_scene(20, 10, 1);
  for (const Bytes& file : {png_of(grey), jpeg_of(grey, {.quality = 100})}) {
    const PicturePart part = decode_all(file), one = decode_all(file, 1);
    for (int i = 0; i < 200; ++i)
      for (int c = 0; c < 3; ++c)
        REQUIRE(value_at(part, i % 20, i / 20, c) == value_at(one, i % 20, i / 20, 0));
  }
}

TEST_CASE("JPEG is decoded to within its loss, whatever its kind", "[picture]") {
  // Slow changes of brightness and colour, which survive the halving of colours.
  const TestPicture smooth = make_picture(70, 50, 3, [](int x, int y, int c) {
    return c == 0 ? 40 + 2 * x : c == 1 ? 200 - 2 * y : 60 + x + y;
  });
  for (const bool progressive : {false, true}) {
    for (const auto& [w, h] : {std::pair{1, 1}, {2, 1}, {2, 2}, {1, 2}, {4, 1}}) {
      INFO(w << " x " << h << (progressive ? " progressive" : ""));
      const PicturePart part = decode_all(jpeg_of(
          smooth,
          {.quality = 98, .chroma_width = w, .chroma_height = h, .progressive = progressive}));
      for (int y = 0; y < 50; ++y)
        for (int x = 0; x < 70; ++x)
          for (int c = 0; c < 3; ++c)
            REQUIRE(std::abs(value_at(part, x, y, c) - smooth.at(x, y, c)) <= 7);
    }
  }
}

TEST_CASE("four inks become red, green and blue", "[picture]") {
  // Cyan, magenta, yellow and black from 0 (none) to 255.
  const auto ink = [](int x, int y, int c) {
    return c == 0 ? 4 * x : c == 1 ? 4 * y : c == 2 ? 80 : 60;
  };
  const auto light = [&](int x, int y, int c) {
    return (255 - ink(x, y, c)) * (255 - ink(x, y, 3)) / 255.0;
  };
  const TestPicture plain = make_picture(32, 32, 4, ink);
  const TestPicture inverted =
      make_picture(32, 32, 4, [&](int x, int y, int c) { return 255 - ink(x, y, c); });
  for (const bool adobe : {false, true}) {
    const Bytes file =
        jpeg_of(adobe ? inverted : plain, {.quality = 98, .cmyk = true, .adobe = adobe});
    const PicturePart part = decode_all(file);
    const PicturePart grey = decode_all(file, 1);
    for (int y = 0; y < 32; ++y) {
      for (int x = 0; x < 32; ++x) {
        for (int c = 0; c < 3; ++c)
          REQUIRE(std::abs(value_at(part, x, y, c) - light(x, y, c)) <= 4);
        REQUIRE(
            std::abs(value_at(grey, x, y, 0) - (0.299 * light(x, y, 0) + 0.587 * light(x, y, 1) +
                                                0.114 * light(x, y, 2))) <= 4);
      }
    }
  }
}

TEST_CASE("a part of a JPEG has the pixels that the whole has there", "[picture]") {
  for (const bool progressive : {false, true}) {
    for (const auto& [w, h] : {std::pair{1, 1}, {2, 1}, {2, 2}, {1, 2}}) {
      for (const int channels : {3, 1}) {
        const Bytes file =
            jpeg_of(make_scene(203, 149, channels),
                    {.chroma_width = w, .chroma_height = h, .progressive = progressive});
        const PicturePart all = decode_all(file, channels);
        for (const PixelArea& area : {PixelArea{0, 0, 203, 149},
                                      {17, 33, 90, 61},
                                      {16, 16, 32, 32},
                                      {1, 1, 1, 1},
                                      {202, 148, 1, 1},
                                      {100, 0, 103, 149},
                                      {0, 77, 203, 72},
                                      {63, 5, 64, 140}}) {
          INFO(w << " x " << h << " at " << area.left << ", " << area.top << " progressive "
                 << progressive);
          REQUIRE(difference(decode(file, area, channels), all, area) == 0);
        }
      }
    }
  }
}

TEST_CASE("a JPEG is reduced as far as enough pixels are left", "[picture]") {
  const TestPicture smooth = make_picture(320, 240, 3, [](int x, int y, int c) {
    return (c == 0 ? x / 2 : c == 1 ? y / 2 : (x + y) / 4) + 40;
  });
  const Bytes file = jpeg_of(smooth, {.quality = 98});
  for (const auto& [min_side, reduction] :
       {std::pair{1000, 1}, {121, 1}, {120, 2}, {61, 2}, {60, 4}, {30, 8}, {1, 8}}) {
    const PicturePart part = decode_all(file, 3, min_side);
    REQUIRE(part.reduction == reduction);
    REQUIRE(part.width == 320 / reduction);
    REQUIRE(part.height == 240 / reduction);
    for (int y = 2; y < part.height - 2; ++y) {
      for (int x = 2; x < part.width - 2; ++x) {
        for (int c = 0; c < 3; ++c) {
          // The middle of the pixels that it stands for.
          const double px = reduction * (x + 0.5) - 0.5, py = reduction * (y + 0.5) - 0.5;
          const double expected = (c == 0 ? px / 2 : c == 1 ? py / 2 : (px + py) / 4) + 40;
          REQUIRE(std::abs(value_at(part, x, y, c) - expected) <= 5);
        }
      }
    }
  }
  // A part of it: the same pixels, at their places in the reduced picture.
  PicturePart part;
  open_picture(file)->decode({100, 60, 130, 140}, 60, 3, part);
  REQUIRE(part.reduction == 2);
  REQUIRE(difference(part, decode_all(file, 3, 120), {50, 30, 65, 70}) == 0);
}

TEST_CASE("orientation tags turn and mirror", "[picture]") {
  // Stored 3 x 2: a b c / d e f. As EXIF says each is shown:
  const TestPicture stored = make_picture(3, 2, 1, [](int x, int y, int) { return 3 * y + x; });
  const std::vector<std::pair<int, Bytes>> shown = {
      {1, {0, 1, 2, 3, 4, 5}}, {2, {2, 1, 0, 5, 4, 3}}, {3, {5, 4, 3, 2, 1, 0}},
      {4, {3, 4, 5, 0, 1, 2}}, {5, {0, 3, 1, 4, 2, 5}}, {6, {3, 0, 4, 1, 5, 2}},
      {7, {5, 2, 4, 1, 3, 0}}, {8, {2, 5, 1, 4, 0, 3}}, {9, {0, 1, 2, 3, 4, 5}}};
  for (const auto& [orientation, pixels] : shown) {
    const PicturePart part = decode_all(png_of(stored, {.orientation = orientation}), 1);
    const bool sideways = orientation >= 5 && orientation <= 8;
    REQUIRE(part.width == (sideways ? 2 : 3));
    REQUIRE(part.height == (sideways ? 3 : 2));
    REQUIRE(part.pixels == pixels);
    REQUIRE(orientation_of(exif_of(orientation, true)) == (orientation == 9 ? 1 : orientation));
  }
  // The same tag in each format: a corner is red.
  const TestPicture corner = make_picture(
      64, 48, 3, [](int x, int y, int c) { return x < 16 && y < 16 && c == 0 ? 255 : 20; });
  for (const int orientation : {3, 6, 8}) {
    const int side_x = orientation == 6 ? 47 : orientation == 3 ? 63 : 0;
    const int side_y = orientation == 8 ? 63 : orientation == 3 ? 47 : 0;
    for (const Bytes& file :
         {jpeg_of(corner, {.orientation = orientation}), webp_of(corner, orientation),
          png_of(corner, {.orientation = orientation})}) {
      const PicturePart part = decode_all(file);
      REQUIRE(part.width == (orientation == 3 ? 64 : 48));
      REQUIRE(value_at(part, side_x, side_y, 0) > 200);
      REQUIRE(value_at(part, part.width - 1 - side_x, part.height - 1 - side_y, 0) < 60);
    }
    const PicturePart reduced = decode_all(jpeg_of(corner, {.orientation = orientation}), 3, 12);
    REQUIRE(reduced.reduction == 4);
    REQUIRE(value_at(reduced, side_x / 4, side_y / 4, 0) > 200);
  }
}

TEST_CASE("broken pictures are errors with a reason", "[picture]") {
  const TestPicture scene = make_scene(60, 40);
  says(reason_of({}), "empty");
  says(reason_of({'G', 'I', 'F', '8', '9', 'a'}), "47 49 46 38");
  for (const Bytes& file : {jpeg_of(scene), jpeg_of(scene, {.progressive = true}), png_of(scene),
                            png_of(scene, {.interlaced = true}), webp_of(scene)}) {
    // Cut anywhere before the last pixels.
    for (std::size_t bytes = 3; bytes < file.size() - 40; bytes += 1 + bytes / 16) {
      INFO(bytes << " of " << file.size());
      reason_of(Bytes(file.begin(), file.begin() + static_cast<std::ptrdiff_t>(bytes)));
    }
  }
  Bytes damaged = png_of(scene);
  damaged[damaged.size() / 2] ^= 1;  // caught by the chunk's checksum, at the latest
  reason_of(damaged);
}

TEST_CASE("a picture that would fill the memory is refused by its header", "[picture]") {
  const PictureLimits limits{.max_pixels = 1000};
  const TestPicture picture = make_scene(40, 30);
  for (const Bytes& file : {jpeg_of(picture), png_of(picture), webp_of(picture)})
    says(reason_of(file, limits), "at most 1000 pixels, found 40 x 30");
  // A header of 2^31 - 1 by 2^31 - 1 alone: IHDR's checksum must fit.
  Bytes png = png_of(make_scene(8, 8));
  for (const std::size_t at : {16u, 20u}) {
    png[at] = 0x7F;
    for (std::size_t i = 1; i < 4; ++i) png[at + i] = 0xFF;
  }
  reason_of(png);
  Bytes jpeg = jpeg_of(make_scene(8, 8));
  const Bytes start_of_frame = {0xFF, 0xC0};
  const auto frame =
      std::search(jpeg.begin(), jpeg.end(), start_of_frame.begin(), start_of_frame.end());
  REQUIRE(frame != jpeg.end());
  std::fill(frame + 5, frame + 9, std::uint8_t{0xFF});
  says(reason_of(jpeg), "pixels");  // 65535 x 65535
}

TEST_CASE("damaged bytes never do more than fail", "[picture]") {
  const TestPicture scene = make_scene(50, 34);
  std::uint32_t state = 1;
  const auto draw = [&](std::size_t bound) {
    state = state * 1664525u + 1013904223u;
    return static_cast<std::size_t>(state >> 8) % bound;
  };
  for (const Bytes& file :
       {jpeg_of(scene), jpeg_of(scene, {.progressive = true, .orientation = 6}), png_of(scene),
        png_of(make_scene(50, 34, 4), {.interlaced = true}), webp_of(scene, 5)}) {
    for (int round = 0; round < 300; ++round) {
      Bytes damaged = file;
      for (std::size_t i = 0; i < 1 + draw(6); ++i)
        damaged[draw(damaged.size())] = static_cast<std::uint8_t>(draw(256));
      try {
        const auto picture = open_picture(damaged, {.max_pixels = 1 << 20});
        PicturePart part;
        const int w = picture->width(), h = picture->height();
        picture->decode({w / 4, h / 4, w - w / 4, h - h / 4}, 8, 1 + 2 * static_cast<int>(draw(2)),
                        part);
        REQUIRE(part.pixels.size() ==
                static_cast<std::size_t>(part.width * part.height * part.channels));
      } catch (const Error& error) {
        REQUIRE(error.kind() == Kind::data);
      }
    }
  }
}
