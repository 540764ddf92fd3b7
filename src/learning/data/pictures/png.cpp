// SPDX-License-Identifier: Apache-2.0
// PNG, by libpng. As in jpeg.cpp, the functions in `jump` have no object with a destructor, because
// libpng reports an error by jumping back to them.

#include <png.h>

#include <algorithm>
#include <array>
#include <csetjmp>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string_view>

#include "core/error.hpp"
#include "data/pictures/picture.hpp"

namespace eqt::data {
namespace {

constexpr png_alloc_size_t kMaxChunkBytes = 8 << 20;  // of texts and profiles, unpacked
constexpr png_uint_32 kMaxChunks = 128;               // likewise
constexpr png_uint_32 kMaxSide = 0x7FFFFFFF;          // describe() checks the product

/// libpng's state with what our handlers need.
struct Decoder {
  Decoder() = default;
  ~Decoder() { png_destroy_read_struct(&png, &info, nullptr); }
  Decoder(const Decoder&) = delete;
  Decoder& operator=(const Decoder&) = delete;

  png_structp png = nullptr;
  png_infop info = nullptr;
  PictureBytes left;  // of the file
  std::array<char, 128> reason = {};
};

[[noreturn]] void on_error(png_structp png, png_const_charp message) {
  auto& decoder = *static_cast<Decoder*>(png_get_error_ptr(png));
  std::snprintf(decoder.reason.data(), decoder.reason.size(), "%s", message);
  png_longjmp(png, 1);
}
void on_warning(png_structp, png_const_charp) {}

void on_read(png_structp png, png_bytep out, std::size_t count) {
  auto& decoder = *static_cast<Decoder*>(png_get_io_ptr(png));
  if (decoder.left.size() < count) png_error(png, "the file ends too early");
  std::memcpy(out, decoder.left.data(), count);
  decoder.left = decoder.left.subspan(count);
}

/// These values are known before the pixels are read.
struct Header {
  png_uint_32 width = 0, height = 0;
  int depth = 0;       // [bits] of a value
  int colour = 0;      // PNG_COLOR_TYPE_...
  bool holes = false;  // transparency beside the pixels (tRNS)
  int passes = 1;      // more than 1: interlaced
  int values = 0;      // of a pixel, when rows are read
  int orientation = 1;
};

namespace jump {

bool read_header(Decoder& decoder, Header& header) {
  decoder.png = png_create_read_struct(PNG_LIBPNG_VER_STRING, &decoder, on_error, on_warning);
  if (decoder.png == nullptr) return false;
  if (setjmp(png_jmpbuf(decoder.png)) != 0) return false;  // NOLINT: libpng's way
  decoder.info = png_create_info_struct(decoder.png);
  if (decoder.info == nullptr) return false;
  png_set_user_limits(decoder.png, kMaxSide, kMaxSide);
  png_set_chunk_malloc_max(decoder.png, kMaxChunkBytes);
  png_set_chunk_cache_max(decoder.png, kMaxChunks);
  png_set_read_fn(decoder.png, &decoder, on_read);
  png_read_info(decoder.png, decoder.info);
  header.width = png_get_image_width(decoder.png, decoder.info);
  header.height = png_get_image_height(decoder.png, decoder.info);
  header.depth = png_get_bit_depth(decoder.png, decoder.info);
  header.colour = png_get_color_type(decoder.png, decoder.info);
  header.holes = png_get_valid(decoder.png, decoder.info, PNG_INFO_tRNS) != 0;
#ifdef PNG_eXIf_SUPPORTED
  png_uint_32 bytes = 0;
  png_bytep exif = nullptr;
  if (png_get_eXIf_1(decoder.png, decoder.info, &bytes, &exif) != 0 && exif != nullptr)
    header.orientation = orientation_of({exif, bytes});
#endif
  return true;
}

/// Has rows converted to 8 bits per value, without palettes.
bool start(Decoder& decoder, Header& header) {
  if (setjmp(png_jmpbuf(decoder.png)) != 0) return false;  // NOLINT
  if (header.colour == PNG_COLOR_TYPE_PALETTE) png_set_palette_to_rgb(decoder.png);
  if (header.colour == PNG_COLOR_TYPE_GRAY && header.depth < 8)
    png_set_expand_gray_1_2_4_to_8(decoder.png);
  if (header.holes) png_set_tRNS_to_alpha(decoder.png);
  if (header.depth == 16) png_set_scale_16(decoder.png);
  header.passes = png_set_interlace_handling(decoder.png);
  png_read_update_info(decoder.png, decoder.info);
  header.values = png_get_channels(decoder.png, decoder.info);
  return true;
}

/// Reads the next row. Rows of an interlaced picture are read `passes` times, each time with more
/// of their pixels.
bool read_row(Decoder& decoder, std::uint8_t* row) {
  if (setjmp(png_jmpbuf(decoder.png)) != 0) return false;  // NOLINT
  png_read_row(decoder.png, row, nullptr);
  return true;
}

}  // namespace jump

/// The chunks before the pixels tell these facts.
struct Chunks {
  bool whole = false;     // the file has all of their bytes, and pixels behind them
  bool animated = false;  // several frames (APNG): a chunk acTL, whose first number counts them
};

Chunks look_at_chunks(PictureBytes file) {
  constexpr std::size_t kSignature = 8, kHead = 8, kCheck = 4;  // [bytes]
  const auto number = [](PictureBytes bytes) {
    return std::uint32_t{bytes[0]} << 24u | std::uint32_t{bytes[1]} << 16u |
           std::uint32_t{bytes[2]} << 8u | std::uint32_t{bytes[3]};
  };
  Chunks chunks;
  for (file = file.subspan(std::min(kSignature, file.size())); file.size() >= kHead;) {
    const std::size_t bytes = number(file);
    const std::string_view type(reinterpret_cast<const char*>(file.data()) + 4, 4);
    file = file.subspan(kHead);
    chunks.whole = type == "IDAT";
    if (chunks.whole || file.size() < bytes + kCheck) break;
    if (type == "acTL" && bytes >= 4) chunks.animated = number(file) > 1;
    file = file.subspan(bytes + kCheck);
  }
  return chunks;
}

class PngPicture final : public Picture {
 public:
  PngPicture(PictureBytes file, const PictureLimits& limits) {
    // libpng takes as much memory as a chunk of metadata says that it has, before it reads it.
    const Chunks chunks = look_at_chunks(file);
    decoder_.left = file;
    if (!chunks.whole)
      fail(Kind::data, "its PNG data are broken: a chunk before the pixels goes beyond the file");
    if (!jump::read_header(decoder_, header_)) broken();
    if (chunks.animated) fail(Kind::data, "expected a picture, found an animation");
    describe(header_.width, header_.height, header_.orientation, limits);
  }

 private:
  [[noreturn]] void broken() const {
    fail(Kind::data, "its PNG data are broken: {}",
         decoder_.reason[0] != '\0' ? decoder_.reason.data() : "out of memory");
  }

  void decode_stored(const PixelArea& area, int, int channels, PicturePart& out) override {
    if (!jump::start(decoder_, header_)) broken();
    const auto values = static_cast<std::size_t>(header_.values);
    const std::size_t stride = static_cast<std::size_t>(stored_width()) * values;
    EQT_CHECK(png_get_rowbytes(decoder_.png, decoder_.info) == stride && values <= 4,
              "{} values per pixel", values);
    make_part(area, channels, out);
    const auto keep = [&](const std::uint8_t* row, int y) {
      if (y < area.top || y >= area.top + area.height) return;
      const std::size_t to = static_cast<std::size_t>(y - area.top) *
                             static_cast<std::size_t>(area.width) *
                             static_cast<std::size_t>(channels);
      convert_pixels(row + static_cast<std::size_t>(area.left) * values, header_.values,
                     static_cast<std::size_t>(area.width), channels, out.pixels.data() + to);
    };
    if (header_.passes > 1) {
      rows_.resize(stride * static_cast<std::size_t>(stored_height()));
      const auto row = [&](int y) { return rows_.data() + static_cast<std::size_t>(y) * stride; };
      for (int pass = 0; pass < header_.passes; ++pass)
        for (int y = 0; y < stored_height(); ++y)
          if (!jump::read_row(decoder_, row(y))) broken();
      for (int y = area.top; y < area.top + area.height; ++y) keep(row(y), y);
      return;
    }
    rows_.resize(stride);
    for (int y = 0; y < area.top + area.height; ++y) {
      if (!jump::read_row(decoder_, rows_.data())) broken();
      keep(rows_.data(), y);
    }
  }

  Decoder decoder_;
  Header header_;
  std::vector<std::uint8_t> rows_;  // as libpng gives them: one, or all of an interlaced picture
};

}  // namespace

std::unique_ptr<Picture> open_png(PictureBytes file, const PictureLimits& limits) {
  return std::make_unique<PngPicture>(file, limits);
}

}  // namespace eqt::data
