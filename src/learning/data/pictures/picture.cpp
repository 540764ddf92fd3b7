// SPDX-License-Identifier: Apache-2.0
#include "data/pictures/picture.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>
#include <utility>

#include "core/error.hpp"

namespace eqt::data {
namespace {

constexpr std::size_t kEntryBytes = 12;  // tag, type, count, value
constexpr std::uint32_t kOrientation = 0x0112;
constexpr std::uint32_t kShort = 3;  // a type: 16 bits without sign

/// Numbers of the byte order that the file says.
class TiffNumbers {
 public:
  TiffNumbers(PictureBytes bytes, bool big_endian) : bytes_(bytes), big_endian_(big_endian) {}

  /// Nothing where the file ends too early.
  std::optional<std::uint32_t> at(std::size_t place, std::size_t count) const {
    if (place > bytes_.size() || bytes_.size() - place < count) return std::nullopt;
    std::uint32_t value = 0;
    for (std::size_t i = 0; i < count; ++i)
      value = value << 8 | bytes_[place + (big_endian_ ? i : count - 1 - i)];
    return value;
  }

 private:
  PictureBytes bytes_;
  bool big_endian_;
};

}  // namespace

int orientation_of(PictureBytes tiff) {
  if (tiff.size() < 8) return 1;
  const bool big = tiff[0] == 'M' && tiff[1] == 'M', little = tiff[0] == 'I' && tiff[1] == 'I';
  if (!big && !little) return 1;
  const TiffNumbers numbers(tiff, big);
  const std::size_t directory = numbers.at(4, 4).value_or(0);
  const std::uint32_t entries = numbers.at(directory, 2).value_or(0);
  for (std::size_t i = 0; i < entries; ++i) {
    const std::size_t entry = directory + 2 + i * kEntryBytes;
    const auto tag = numbers.at(entry, 2);
    if (!tag) return 1;
    if (*tag != kOrientation || numbers.at(entry + 2, 2) != kShort) continue;
    const std::uint32_t value = numbers.at(entry + 8, 2).value_or(1);
    return value >= 1 && value <= 8 ? static_cast<int>(value) : 1;
  }
  return 1;
}

namespace {

constexpr std::array<std::uint8_t, 3> kJpegBegins = {0xFF, 0xD8, 0xFF};
constexpr std::array<std::uint8_t, 8> kPngBegins = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1A, '\n'};

bool begins(PictureBytes file, PictureBytes with) {
  return file.size() >= with.size() && std::ranges::equal(file.first(with.size()), with);
}

bool is_webp(PictureBytes file) {
  constexpr std::size_t kHead = 12;  // "RIFF", four bytes of length, "WEBP"
  if (file.size() < kHead) return false;
  const std::string_view text(reinterpret_cast<const char*>(file.data()), kHead);
  return text.starts_with("RIFF") && text.ends_with("WEBP");
}

/// Returns where the shown picture's pixel (x, y) is stored, in a picture of this stored width and
/// height.
std::pair<int, int> stored_place(int orientation, int x, int y, int width, int height) {
  const int right = width - 1, bottom = height - 1;
  switch (orientation) {
    case 2:
      return {right - x, y};
    case 3:
      return {right - x, bottom - y};
    case 4:
      return {x, bottom - y};
    case 5:
      return {y, x};
    case 6:
      return {y, bottom - x};
    case 7:
      return {right - y, bottom - x};
    case 8:
      return {right - y, x};
    default:
      return {x, y};
  }
}

/// Turns a whole picture as its tag says.
void turn(int orientation, PicturePart& part) {
  PicturePart turned = {.channels = part.channels,
                        .height = orientation >= 5 ? part.width : part.height,
                        .width = orientation >= 5 ? part.height : part.width,
                        .reduction = part.reduction};
  turned.pixels.resize(part.pixels.size());
  const auto channels = static_cast<std::size_t>(part.channels);
  std::uint8_t* out = turned.pixels.data();
  for (int y = 0; y < turned.height; ++y) {
    for (int x = 0; x < turned.width; ++x, out += channels) {
      const auto [column, row] = stored_place(orientation, x, y, part.width, part.height);
      const std::size_t pixel =
          static_cast<std::size_t>(row) * static_cast<std::size_t>(part.width) +
          static_cast<std::size_t>(column);
      std::copy_n(part.pixels.data() + pixel * channels, channels, out);
    }
  }
  part = std::move(turned);
}

std::uint8_t grey_of(const std::uint8_t* rgb) {
  // ITU-R 601 in 16 bits: 0.299, 0.587, 0.114
  return static_cast<std::uint8_t>((rgb[0] * 19595 + rgb[1] * 38470 + rgb[2] * 7471 + 0x8000) >>
                                   16);
}

std::uint8_t on_white(int value, int alpha) {
  return static_cast<std::uint8_t>((value * alpha + 255 * (255 - alpha) + 127) / 255);
}

}  // namespace

void convert_pixels(const std::uint8_t* in, int in_channels, std::size_t count, int channels,
                    std::uint8_t* out) {
  const auto from = static_cast<std::size_t>(in_channels), to = static_cast<std::size_t>(channels);
  if (from == to) {
    if (in != out) std::copy_n(in, count * to, out);
    return;
  }
  const bool grey = in_channels <= 2, alpha = in_channels % 2 == 0;
  for (std::size_t i = 0; i < count; ++i, in += from, out += to) {
    std::array<std::uint8_t, 3> rgb = {in[0], grey ? in[0] : in[1], grey ? in[0] : in[2]};
    if (alpha)
      for (std::uint8_t& value : rgb) value = on_white(value, in[from - 1]);
    if (channels == 3) {
      std::ranges::copy(rgb, out);
    } else {
      *out = grey ? rgb[0] : grey_of(rgb.data());
    }
  }
}

std::size_t make_part(const PixelArea& area, int channels, PicturePart& out) {
  const std::size_t values = static_cast<std::size_t>(area.width) *
                             static_cast<std::size_t>(area.height) *
                             static_cast<std::size_t>(channels);
  out.pixels.resize(values);
  out.channels = channels;
  out.height = area.height;
  out.width = area.width;
  out.left = area.left;
  out.top = area.top;
  out.reduction = 1;
  return values;
}

void Picture::describe(std::uint64_t width, std::uint64_t height, int orientation,
                       const PictureLimits& limits) {
  if (width == 0 || height == 0) fail(Kind::data, "expected pixels, found {} x {}", width, height);
  // No format has sides of 2^31 pixels, and no product of smaller ones overflows.
  if (width >= 1u << 31 || height >= 1u << 31 || width * height > limits.max_pixels) {
    fail(Kind::data, "expected at most {} pixels, found {} x {}", limits.max_pixels, width, height);
  }
  stored_width_ = static_cast<int>(width);
  stored_height_ = static_cast<int>(height);
  orientation_ = orientation >= 2 && orientation <= 8 ? orientation : 1;
}

void Picture::decode(const PixelArea& area, int min_side, int channels, PicturePart& out) {
  EQT_CHECK(channels == 1 || channels == 3, "{} channels", channels);
  EQT_CHECK(min_side >= 1, "{} pixels", min_side);
  EQT_CHECK(area.left >= 0 && area.top >= 0 && area.width >= 1 && area.height >= 1 &&
                area.left <= width() - area.width && area.top <= height() - area.height,
            "{} x {} at {}, {} of {} x {}", area.width, area.height, area.left, area.top, width(),
            height());
  // A turned picture is decoded whole, and reduced only if that leaves no rest at a side that
  // becomes its left or upper one.
  const auto fits = [&](int reduction) {
    return std::min(area.width, area.height) / reduction >= min_side &&
           (orientation_ == 1 || (width() % reduction == 0 && height() % reduction == 0));
  };
  int reduction = 1;
  if (can_reduce())
    for (const int more : {2, 4, 8})
      if (fits(more)) reduction = more;
  if (orientation_ == 1) return decode_stored(area, reduction, channels, out);
  decode_stored({0, 0, stored_width_, stored_height_}, reduction, channels, out);
  turn(orientation_, out);
}

void Picture::require_whole() {
  PicturePart row;
  decode_stored({0, stored_height_ - 1, stored_width_, 1}, can_reduce() ? 8 : 1, 3, row);
}

std::unique_ptr<Picture> open_picture(PictureBytes file, const PictureLimits& limits) {
  if (file.empty()) fail(Kind::data, "the file is empty");
  if (begins(file, kJpegBegins)) return open_jpeg(file, limits);
  if (begins(file, kPngBegins)) return open_png(file, limits);
  if (is_webp(file)) return open_webp(file, limits);
  fail(Kind::data, "expected a JPEG, PNG or WebP picture, found a file that begins with {:02x}",
       fmt::join(file.first(std::min<std::size_t>(file.size(), 4)), " "));
}

}  // namespace eqt::data
