// SPDX-License-Identifier: Apache-2.0
#include "support/picture_files.hpp"

#include <png.h>
#include <webp/encode.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <stdexcept>

#include <jpeglib.h>

namespace eqt::test {
namespace {

void append(Bytes& to, const Bytes& from) { to.insert(to.end(), from.begin(), from.end()); }

Bytes bytes_of(const char* text, std::size_t count) {
  return {reinterpret_cast<const std::uint8_t*>(text),
          reinterpret_cast<const std::uint8_t*>(text) + count};
}

}  // namespace

TestPicture make_picture(int width, int height, int channels,
                         const std::function<int(int, int, int)>& value) {
  TestPicture picture{width, height, channels, {}};
  for (int y = 0; y < height; ++y)
    for (int x = 0; x < width; ++x)
      for (int c = 0; c < channels; ++c)
        picture.pixels.push_back(static_cast<std::uint8_t>(value(x, y, c)));
  return picture;
}

TestPicture make_scene(int width, int height, int channels, unsigned seed) {
  return make_picture(width, height, channels, [=](int x, int y, int c) {
    const double wave =
        std::sin(0.11 * x + 0.05 * y + c + seed) + std::cos(0.07 * y - 0.02 * x * c);
    const int disc = (x - width / 3) * (x - width / 3) + (y - height / 2) * (y - height / 2) <
                             height * height / 12
                         ? 60
                         : 0;
    return std::min(255, 90 + disc + static_cast<int>(35 * wave) + (x * 7 + y * 13 + c) % 9);
  });
}

Bytes exif_of(int orientation, bool big_endian) {
  const auto number = [&](unsigned value, int count) {
    Bytes bytes;
    for (int i = 0; i < count; ++i) {
      const int shift = 8 * (big_endian ? count - 1 - i : i);
      bytes.push_back(static_cast<std::uint8_t>(value >> shift));
    }
    return bytes;
  };
  Bytes tiff = bytes_of(big_endian ? "MM" : "II", 2);
  append(tiff, number(42, 2));
  append(tiff, number(8, 4));       // the directory's place
  append(tiff, number(2, 2));       // its entries
  append(tiff, number(0x0100, 2));  // width, to be passed over
  append(tiff, number(3, 2));
  append(tiff, number(1, 4));
  append(tiff, number(77, 2));
  append(tiff, number(0, 2));
  append(tiff, number(0x0112, 2));
  append(tiff, number(3, 2));
  append(tiff, number(1, 4));
  append(tiff, number(static_cast<unsigned>(orientation), 2));
  append(tiff, number(0, 2));
  append(tiff, number(0, 4));
  return tiff;
}

Bytes jpeg_of(const TestPicture& picture, const JpegSettings& settings) {
  jpeg_compress_struct info = {};
  jpeg_error_mgr errors = {};
  info.err = jpeg_std_error(&errors);  // ends the test
  jpeg_create_compress(&info);
  unsigned char* memory = nullptr;
  unsigned long size = 0;
  jpeg_mem_dest(&info, &memory, &size);
  info.image_width = static_cast<JDIMENSION>(picture.width);
  info.image_height = static_cast<JDIMENSION>(picture.height);
  info.input_components = picture.channels;
  info.in_color_space = picture.channels == 1 ? JCS_GRAYSCALE : settings.cmyk ? JCS_CMYK : JCS_RGB;
  jpeg_set_defaults(&info);
  jpeg_set_quality(&info, settings.quality, TRUE);
  if (settings.progressive) jpeg_simple_progression(&info);
  if (picture.channels == 3) {
    info.comp_info[0].h_samp_factor = settings.chroma_width;
    info.comp_info[0].v_samp_factor = settings.chroma_height;
  }
  if (settings.cmyk) info.write_Adobe_marker = settings.adobe ? TRUE : FALSE;
  jpeg_start_compress(&info, TRUE);
  if (settings.orientation > 0) {
    Bytes exif = bytes_of("Exif\0\0", 6);
    append(exif, exif_of(settings.orientation, settings.orientation % 2 == 0));
    jpeg_write_marker(&info, JPEG_APP0 + 1, exif.data(), static_cast<unsigned>(exif.size()));
  }
  const std::size_t stride =
      static_cast<std::size_t>(picture.width) * static_cast<std::size_t>(picture.channels);
  while (info.next_scanline < info.image_height) {
    JSAMPROW row = const_cast<JSAMPROW>(picture.pixels.data() + info.next_scanline * stride);
    jpeg_write_scanlines(&info, &row, 1);
  }
  jpeg_finish_compress(&info);
  jpeg_destroy_compress(&info);
  Bytes bytes(memory, memory + size);
  std::free(memory);
  return bytes;
}

namespace {

void append_png(png_structp png, png_bytep data, std::size_t count) {
  auto& bytes = *static_cast<Bytes*>(png_get_io_ptr(png));
  bytes.insert(bytes.end(), data, data + count);
}

/// One row as libpng packs it.
Bytes packed_row(const TestPicture& picture, int y, int depth) {
  Bytes row;
  int bits = 0, filled = 0;
  for (int x = 0; x < picture.width; ++x) {
    for (int c = 0; c < picture.channels; ++c) {
      const int value = picture.at(x, y, c);
      if (depth == 16) {
        row.push_back(static_cast<std::uint8_t>(value));
        row.push_back(static_cast<std::uint8_t>(value));
        continue;
      }
      bits = bits << depth | value;
      if ((filled += depth) == 8) {
        row.push_back(static_cast<std::uint8_t>(bits));
        bits = filled = 0;
      }
    }
  }
  if (filled > 0) row.push_back(static_cast<std::uint8_t>(bits << (8 - filled)));
  return row;
}

}  // namespace

Bytes png_of(const TestPicture& picture, const PngSettings& settings) {
  Bytes bytes;
  png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, nullptr, nullptr, nullptr);
  png_infop info = png_create_info_struct(png);
  png_set_write_fn(png, &bytes, append_png, [](png_structp) {});
  constexpr int kColours[] = {0, PNG_COLOR_TYPE_GRAY, PNG_COLOR_TYPE_GRAY_ALPHA, PNG_COLOR_TYPE_RGB,
                              PNG_COLOR_TYPE_RGB_ALPHA};
  const int colour = settings.palette ? PNG_COLOR_TYPE_PALETTE : kColours[picture.channels];
  png_set_IHDR(png, info, static_cast<png_uint_32>(picture.width),
               static_cast<png_uint_32>(picture.height), settings.depth, colour,
               settings.interlaced ? PNG_INTERLACE_ADAM7 : PNG_INTERLACE_NONE,
               PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
  if (settings.palette) {
    std::vector<png_color> entries;
    for (int i = 0; i < 1 << settings.depth; ++i)
      entries.push_back(
          {static_cast<png_byte>(i), static_cast<png_byte>(255 - i), static_cast<png_byte>(i / 2)});
    png_set_PLTE(png, info, entries.data(), static_cast<int>(entries.size()));
    if (settings.transparent >= 0) {
      Bytes alpha(static_cast<std::size_t>(settings.transparent) + 1, 255);
      alpha.back() = 0;
      png_set_tRNS(png, info, alpha.data(), static_cast<int>(alpha.size()), nullptr);
    }
  }
  Bytes exif;
  if (settings.orientation > 0) {
    exif = exif_of(settings.orientation);
    png_set_eXIf_1(png, info, static_cast<png_uint_32>(exif.size()), exif.data());
  }
  std::vector<Bytes> rows;
  std::vector<png_bytep> pointers;
  for (int y = 0; y < picture.height; ++y) rows.push_back(packed_row(picture, y, settings.depth));
  for (Bytes& row : rows) pointers.push_back(row.data());
  png_set_rows(png, info, pointers.data());
  png_write_png(png, info, PNG_TRANSFORM_IDENTITY, nullptr);
  png_destroy_write_struct(&png, &info);
  return bytes;
}

Bytes webp_of(const TestPicture& picture, int orientation) {
  std::uint8_t* memory = nullptr;
  const int stride = picture.width * picture.channels;
  const std::size_t size = picture.channels == 4
                               ? WebPEncodeLosslessRGBA(picture.pixels.data(), picture.width,
                                                        picture.height, stride, &memory)
                               : WebPEncodeLosslessRGB(picture.pixels.data(), picture.width,
                                                       picture.height, stride, &memory);
  Bytes simple(memory, memory + size);
  WebPFree(memory);
  if (orientation == 0) return simple;
  // The extended format: a chunk VP8X before the picture's, and one with EXIF data after it.
  const auto number = [](std::size_t value, int count) {
    Bytes bytes;
    for (int i = 0; i < count; ++i) bytes.push_back(static_cast<std::uint8_t>(value >> (8 * i)));
    return bytes;
  };
  Bytes chunks = bytes_of("WEBPVP8X", 8);
  append(chunks, number(10, 4));
  append(chunks, number(8, 4));  // flag: EXIF
  append(chunks, number(static_cast<std::size_t>(picture.width - 1), 3));
  append(chunks, number(static_cast<std::size_t>(picture.height - 1), 3));
  chunks.insert(chunks.end(), simple.begin() + 12, simple.end());
  Bytes exif = exif_of(orientation);
  append(chunks, bytes_of("EXIF", 4));
  append(chunks, number(exif.size(), 4));
  append(chunks, exif);
  Bytes file = bytes_of("RIFF", 4);
  append(file, number(chunks.size(), 4));
  append(file, chunks);
  return file;
}

void TarBytes::add(const std::string& name, std::span<const std::uint8_t> content, char type,
                   const std::string& link) {
  constexpr std::size_t kBlock = 512;
  std::vector<char> head(kBlock, '\0');
  const auto put = [&](std::size_t at, const std::string& text) {
    std::memcpy(head.data() + at, text.data(), text.size());
  };
  const auto octal = [](std::size_t value, int digits) {
    std::string text(static_cast<std::size_t>(digits), '0');
    for (auto digit = text.rbegin(); digit != text.rend(); ++digit, value /= 8)
      *digit = static_cast<char>('0' + value % 8);
    return text;
  };
  put(0, name.substr(0, 100));
  put(100, "0000644");
  put(108, "0000000");
  put(116, "0000000");
  put(124, octal(content.size(), 11));
  put(136, octal(0, 11));
  put(148, "        ");
  head[156] = type;
  put(157, link);
  put(257, "ustar");
  put(263, "00");
  std::size_t sum = 0;
  for (const char c : head) sum += static_cast<unsigned char>(c);
  put(148, octal(sum, 6));
  head[154] = '\0';
  bytes_.insert(bytes_.end(), head.begin(), head.end());
  bytes_.insert(bytes_.end(), content.begin(), content.end());
  bytes_.resize((bytes_.size() + kBlock - 1) / kBlock * kBlock);
}

Bytes TarBytes::bytes() const {
  Bytes all = bytes_;
  all.resize(all.size() + 1024);
  return all;
}

void write_file(const std::string& path, std::span<const std::uint8_t> bytes) {
  std::filesystem::create_directories(std::filesystem::path(path).parent_path());
  std::ofstream file(path, std::ios::binary);
  file.write(reinterpret_cast<const char*>(bytes.data()),
             static_cast<std::streamsize>(bytes.size()));
  if (!file) throw std::runtime_error("cannot write " + path);
}

}  // namespace eqt::test
