// SPDX-License-Identifier: Apache-2.0
// JPEG, by libjpeg-turbo.
//
// libjpeg reports an error by a call that must not return. Ours jumps back into the function of
// this file that called libjpeg; these functions (in `jump`) have no object with a destructor.

#include <csetjmp>
#include <cstdio>  // jpeglib.h needs it

#include <jpeglib.h>

#include <jerror.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "core/error.hpp"
#include "data/pictures/picture.hpp"

namespace eqt::data {
namespace {

constexpr int kMaxScans = 100;  // a progressive picture can repeat its scans to take hours
constexpr unsigned kMaxExifBytes = 0xFFFF;
constexpr JDIMENSION kMargin = 2;       // columns that upsampled colours look at, on each side
constexpr JDIMENSION kRowsAtOnce = 16;  // as many as libjpeg has ready at most

/// libjpeg's state with what our handlers need.
struct Decoder {
  Decoder() = default;
  ~Decoder() { jpeg_destroy_decompress(&info); }
  Decoder(const Decoder&) = delete;
  Decoder& operator=(const Decoder&) = delete;

  jpeg_decompress_struct info = {};
  jpeg_error_mgr errors = {};
  jpeg_progress_mgr progress = {};
  std::jmp_buf back = {};
  std::array<char, JMSG_LENGTH_MAX> reason = {};
};

Decoder& decoder_of(j_common_ptr info) { return *static_cast<Decoder*>(info->client_data); }

[[noreturn]] void on_error(j_common_ptr info) {
  Decoder& decoder = decoder_of(info);
  info->err->format_message(info, decoder.reason.data());
  std::longjmp(decoder.back, 1);
}

/// Of what libjpeg would put up with, a file that is cut or has wrong codes is an error here; a
/// stray byte or an odd version is not.
void on_message(j_common_ptr info, int level) {
  if (level >= 0) return;
  ++info->err->num_warnings;
  const int code = info->err->msg_code;
  if (code == JWRN_JPEG_EOF || code == JWRN_HIT_MARKER || code == JWRN_HUFF_BAD_CODE ||
      code == JWRN_ARITH_BAD_CODE)
    on_error(info);
}

void on_progress(j_common_ptr info) {
  if (reinterpret_cast<j_decompress_ptr>(info)->input_scan_number <= kMaxScans) return;
  Decoder& decoder = decoder_of(info);
  constexpr std::string_view kReason = "more scans than any picture needs";
  std::ranges::copy(kReason, decoder.reason.begin());
  decoder.reason[kReason.size()] = '\0';
  std::longjmp(decoder.back, 1);
}

/// A window is the part that is decoded, in reduced pixels of the stored picture.
struct Window {
  JDIMENSION left = 0, width = 0, top = 0, height = 0;
};

namespace jump {

bool read_header(Decoder& decoder, const std::uint8_t* file, unsigned long bytes) {
  jpeg_decompress_struct& info = decoder.info;
  info.err = jpeg_std_error(&decoder.errors);
  decoder.errors.error_exit = on_error;
  decoder.errors.emit_message = on_message;
  info.client_data = &decoder;
  if (setjmp(decoder.back) != 0) return false;  // NOLINT: libjpeg's way
  jpeg_create_decompress(&info);
  decoder.progress.progress_monitor = on_progress;
  info.progress = &decoder.progress;
  jpeg_save_markers(&info, JPEG_APP0 + 1, kMaxExifBytes);
  jpeg_mem_src(&info, file, bytes);
  return jpeg_read_header(&info, TRUE) == JPEG_HEADER_OK;
}

/// Starts decoding; `window` becomes as wide as libjpeg can make it, and reaches into the picture.
bool start(Decoder& decoder, unsigned reduction, J_COLOR_SPACE colours, Window& window) {
  jpeg_decompress_struct& info = decoder.info;
  if (setjmp(decoder.back) != 0) return false;  // NOLINT
  info.scale_num = 1;
  info.scale_denom = reduction;
  info.out_color_space = colours;
  jpeg_start_decompress(&info);
  const JDIMENSION width = info.output_width, height = info.output_height;
  window.height = std::min(window.height, height - std::min(window.top, height));
  const JDIMENSION right = std::min(window.left + window.width + kMargin, width);
  JDIMENSION left = window.left - std::min(window.left, kMargin);
  JDIMENSION columns = right - std::min(left, right);
  if (columns > 0 && columns < width) {
    jpeg_crop_scanline(&info, &left, &columns);
  } else {
    left = 0;
  }
  window.left = left;
  window.width = info.output_width;
  if (window.top > 0 && window.height > 0) jpeg_skip_scanlines(&info, window.top);
  return true;
}

/// Reads `height` rows of `stride` bytes each.
bool read_rows(Decoder& decoder, JDIMENSION height, std::size_t stride, std::uint8_t* out) {
  jpeg_decompress_struct& info = decoder.info;
  if (setjmp(decoder.back) != 0) return false;  // NOLINT
  std::array<JSAMPROW, kRowsAtOnce> rows;
  for (JDIMENSION done = 0; done < height;) {
    const JDIMENSION count = std::min(height - done, kRowsAtOnce);
    for (JDIMENSION i = 0; i < count; ++i) rows[i] = out + (done + i) * stride;
    const JDIMENSION got = jpeg_read_scanlines(&info, rows.data(), count);
    if (got == 0) return false;
    done += got;
  }
  return true;
}

}  // namespace jump

/// Cyan, magenta, yellow and black to red, green and blue. Adobe's files have inverted values.
void cmyk_to_rgb(const std::uint8_t* in, std::size_t count, bool inverted, std::uint8_t* out) {
  for (std::size_t i = 0; i < count; ++i, in += 4, out += 3) {
    const int black = inverted ? in[3] : 255 - in[3];
    for (int c = 0; c < 3; ++c)
      out[c] = static_cast<std::uint8_t>(((inverted ? in[c] : 255 - in[c]) * black + 127) / 255);
  }
}

class JpegPicture final : public Picture {
 public:
  JpegPicture(PictureBytes file, const PictureLimits& limits) {
    if (!jump::read_header(decoder_, file.data(), file.size())) broken();
    describe(decoder_.info.image_width, decoder_.info.image_height, orientation(), limits);
  }

 private:
  [[noreturn]] void broken() const {
    fail(Kind::data, "its JPEG data are broken: {}", decoder_.reason.data());
  }

  int orientation() const {
    constexpr std::string_view kExif("Exif\0\0", 6);
    for (auto* marker = decoder_.info.marker_list; marker != nullptr; marker = marker->next) {
      const PictureBytes data(marker->data, marker->data_length);
      const std::string_view text(reinterpret_cast<const char*>(data.data()), data.size());
      if (text.starts_with(kExif)) return orientation_of(data.subspan(kExif.size()));
    }
    return 1;
  }

  bool can_reduce() const override { return true; }

  void decode_stored(const PixelArea& area, int reduction, int channels,
                     PicturePart& out) override {
    const jpeg_decompress_struct& info = decoder_.info;
    const bool inks =
        info.jpeg_color_space == JCS_CMYK || info.jpeg_color_space == JCS_YCCK;  // four of them
    const J_COLOR_SPACE colours = inks ? JCS_CMYK : channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
    const auto end = [&](int begin, int length) { return (begin + length - 1) / reduction + 1; };
    Window window;
    window.left = static_cast<JDIMENSION>(area.left / reduction);
    window.top = static_cast<JDIMENSION>(area.top / reduction);
    window.width = static_cast<JDIMENSION>(end(area.left, area.width)) - window.left;
    window.height = static_cast<JDIMENSION>(end(area.top, area.height)) - window.top;
    if (!jump::start(decoder_, static_cast<unsigned>(reduction), colours, window)) broken();

    const auto pixels = make_part({static_cast<int>(window.left), static_cast<int>(window.top),
                                   static_cast<int>(window.width), static_cast<int>(window.height)},
                                  1, out);
    const auto components = static_cast<std::size_t>(info.output_components);
    EQT_CHECK(components == (inks ? 4u : static_cast<unsigned>(channels)), "{} components",
              components);
    out.pixels.resize(pixels * components);
    if (!jump::read_rows(decoder_, window.height, window.width * components, out.pixels.data()))
      broken();
    if (inks) {
      cmyk_to_rgb(out.pixels.data(), pixels, info.saw_Adobe_marker != FALSE, out.pixels.data());
      convert_pixels(out.pixels.data(), 3, pixels, channels, out.pixels.data());
      out.pixels.resize(pixels * static_cast<std::size_t>(channels));
    }
    out.channels = channels;
    out.reduction = reduction;
  }

  Decoder decoder_;
};

}  // namespace

std::unique_ptr<Picture> open_jpeg(PictureBytes file, const PictureLimits& limits) {
  return std::make_unique<JpegPicture>(file, limits);
}

}  // namespace eqt::data
