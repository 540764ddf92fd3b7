// SPDX-License-Identifier: Apache-2.0
// WebP, by libwebp. Animations are refused.

#include <webp/decode.h>

#include <string_view>

#include "core/error.hpp"
#include "data/pictures/picture.hpp"

namespace eqt::data {
namespace {

/// The orientation that a chunk "EXIF" of the file has.
int orientation_in(PictureBytes file) {
  constexpr std::size_t kRiffHead = 12, kChunkHead = 8;
  std::size_t at = kRiffHead;
  while (at <= file.size() && file.size() - at >= kChunkHead) {
    const std::string_view name(reinterpret_cast<const char*>(file.data() + at), 4);
    std::size_t bytes = 0;  // little endian
    for (std::size_t i = 4; i-- > 0;) bytes = bytes << 8 | file[at + 4 + i];
    at += kChunkHead;
    if (bytes > file.size() - at) return 1;
    if (name == "EXIF") {
      PictureBytes exif = file.subspan(at, bytes);
      // Some programs put JPEG's prefix before it.
      if (exif.size() >= 6 && exif[0] == 'E' && exif[4] == 0) exif = exif.subspan(6);
      return orientation_of(exif);
    }
    at += bytes + bytes % 2;
  }
  return 1;
}

std::string_view reason_of(VP8StatusCode status) {
  switch (status) {
    case VP8_STATUS_OUT_OF_MEMORY:
      return "out of memory";
    case VP8_STATUS_NOT_ENOUGH_DATA:
    case VP8_STATUS_SUSPENDED:
      return "the file ends too early";
    case VP8_STATUS_UNSUPPORTED_FEATURE:
      return "it uses what libwebp does not support";
    default:
      return "wrong codes";
  }
}

class WebpPicture final : public Picture {
 public:
  WebpPicture(PictureBytes file, const PictureLimits& limits) : file_(file) {
    WebPBitstreamFeatures features;
    require(WebPGetFeatures(file.data(), file.size(), &features));
    if (features.has_animation != 0) fail(Kind::data, "expected a picture, found an animation");
    alpha_ = features.has_alpha != 0;
    describe(static_cast<std::uint64_t>(features.width),
             static_cast<std::uint64_t>(features.height), orientation_in(file), limits);
  }

 private:
  static void require(VP8StatusCode status) {
    if (status != VP8_STATUS_OK)
      fail(Kind::data, "its WebP data are broken: {}", reason_of(status));
  }

  void decode_stored(const PixelArea& area, int, int channels, PicturePart& out) override {
    // libwebp starts at even places.
    const int left = area.left & ~1, top = area.top & ~1;
    const PixelArea wider = {left, top, area.left + area.width - left,
                             area.top + area.height - top};
    const int values = alpha_ ? 4 : 3;
    const std::size_t bytes = make_part(wider, values, out);
    WebPDecoderConfig config;
    EQT_CHECK(WebPInitDecoderConfig(&config) != 0, "another version of libwebp");
    config.options.use_cropping = 1;
    config.options.crop_left = wider.left;
    config.options.crop_top = wider.top;
    config.options.crop_width = wider.width;
    config.options.crop_height = wider.height;
    config.output.colorspace = alpha_ ? MODE_RGBA : MODE_RGB;
    config.output.is_external_memory = 1;
    config.output.u.RGBA.rgba = out.pixels.data();
    config.output.u.RGBA.stride = wider.width * values;
    config.output.u.RGBA.size = bytes;
    const VP8StatusCode status = WebPDecode(file_.data(), file_.size(), &config);
    WebPFreeDecBuffer(&config.output);
    require(status);
    const std::size_t pixels = bytes / static_cast<std::size_t>(values);
    convert_pixels(out.pixels.data(), values, pixels, channels, out.pixels.data());
    out.channels = channels;
    out.pixels.resize(pixels * static_cast<std::size_t>(channels));
  }

  PictureBytes file_;
  bool alpha_ = false;
};

}  // namespace

std::unique_ptr<Picture> open_webp(PictureBytes file, const PictureLimits& limits) {
  return std::make_unique<WebpPicture>(file, limits);
}

}  // namespace eqt::data
