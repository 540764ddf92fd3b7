#include "metrics/png.hpp"

#include <zlib.h>

#include <cstdint>
#include <string_view>

#include "core/error.hpp"

namespace eqt::metrics {
namespace {

constexpr std::string_view kSignature = "\x89PNG\r\n\x1a\n";
constexpr char kGrey = 0, kColour = 2;  // colour types

const Bytef* bytes_of(const std::string& text) {
  return reinterpret_cast<const Bytef*>(text.data());
}

void append_big_endian(std::uint32_t value, std::string& to) {
  for (int shift = 24; shift >= 0; shift -= 8) to += static_cast<char>(value >> shift & 0xFFu);
}

/// Length, name, data and their CRC-32.
void append_chunk(std::string_view name, std::string_view data, std::string& to) {
  append_big_endian(static_cast<std::uint32_t>(data.size()), to);
  const std::string summed = std::string(name) + std::string(data);
  to += summed;
  append_big_endian(
      static_cast<std::uint32_t>(crc32(0, bytes_of(summed), static_cast<uInt>(summed.size()))), to);
}

std::string deflated(const std::string& raw) {
  uLongf size = compressBound(static_cast<uLong>(raw.size()));
  std::string packed(size, '\0');
  const int code = compress(reinterpret_cast<Bytef*>(packed.data()), &size, bytes_of(raw),
                            static_cast<uLong>(raw.size()));
  EQT_CHECK(code == Z_OK, "zlib: code {} while an image is packed", code);
  packed.resize(size);
  return packed;
}

}  // namespace

std::string png_of(const ImageRecord& image) {
  EQT_CHECK(image.channels == 1 || image.channels == 3, "an image of {} channels", image.channels);
  const auto height = static_cast<std::size_t>(image.height);
  const std::size_t row =
      static_cast<std::size_t>(image.width) * static_cast<std::size_t>(image.channels);
  EQT_CHECK(image.pixels.size() == height * row, "{} values for an image of {}",
            image.pixels.size(), height * row);
  std::string header;
  append_big_endian(static_cast<std::uint32_t>(image.width), header);
  append_big_endian(static_cast<std::uint32_t>(image.height), header);
  header += '\x08';  // bits a channel
  header += image.channels == 3 ? kColour : kGrey;
  header.append(3, '\0');  // compression and filter methods, no interlacing

  std::string rows;
  rows.reserve(height * (row + 1));
  for (std::size_t y = 0; y < height; ++y) {
    rows += '\0';  // this row's filter: none
    rows.append(reinterpret_cast<const char*>(image.pixels.data()) + y * row, row);
  }
  std::string png(kSignature);
  append_chunk("IHDR", header, png);
  append_chunk("IDAT", deflated(rows), png);
  append_chunk("IEND", "", png);
  return png;
}

}  // namespace eqt::metrics
