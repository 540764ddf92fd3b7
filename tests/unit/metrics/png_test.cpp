#include "metrics/png.hpp"

#include <zlib.h>

#include <cstdint>
#include <string>
#include <vector>

#include "support/catch.hpp"

using namespace eqt::metrics;

namespace {

std::uint32_t big_endian_at(const std::string& bytes, std::size_t at) {
  std::uint32_t value = 0;
  for (std::size_t i = 0; i < 4; ++i)
    value = value << 8 | static_cast<unsigned char>(bytes.at(at + i));
  return value;
}

struct Chunk {
  std::string name, data;
};

/// Checks signature, lengths and checksums.
std::vector<Chunk> chunks_of(const std::string& png) {
  REQUIRE(png.substr(0, 8) == "\x89PNG\r\n\x1a\n");
  std::vector<Chunk> chunks;
  for (std::size_t at = 8; at < png.size();) {
    const std::size_t size = big_endian_at(png, at);
    const std::string summed = png.substr(at + 4, size + 4);
    CHECK(big_endian_at(png, at + 8 + size) == crc32(0,
                                                     reinterpret_cast<const Bytef*>(summed.data()),
                                                     static_cast<uInt>(summed.size())));
    chunks.push_back({summed.substr(0, 4), summed.substr(4)});
    at += size + 12;
  }
  return chunks;
}

std::string inflated(const std::string& packed, std::size_t size) {
  std::string raw(size, '?');
  uLongf length = size;
  REQUIRE(uncompress(reinterpret_cast<Bytef*>(raw.data()), &length,
                     reinterpret_cast<const Bytef*>(packed.data()), packed.size()) == Z_OK);
  REQUIRE(length == size);
  return raw;
}

}  // namespace

TEST_CASE("a colour image's rows stand in its PNG behind a filter byte", "[png]") {
  const ImageRecord image = {.step = 0,
                             .name = "i",
                             .width = 2,
                             .height = 2,
                             .channels = 3,
                             .pixels = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 255}};
  const auto chunks = chunks_of(png_of(image));
  REQUIRE(chunks.size() == 3);
  CHECK(chunks[0].name == "IHDR");
  CHECK(chunks[0].data == std::string("\0\0\0\x02\0\0\0\x02\x08\x02\0\0\0", 13));
  CHECK(chunks[1].name == "IDAT");
  CHECK(inflated(chunks[1].data, 14) ==
        std::string("\0\x01\x02\x03\x04\x05\x06\0\x07\x08\x09\x0a\x0b\xff", 14));
  CHECK(chunks[2].name == "IEND");
  CHECK(chunks[2].data.empty());
}

TEST_CASE("a grey image of an odd width", "[png]") {
  const ImageRecord image = {
      .step = 0, .name = "i", .width = 3, .height = 1, .channels = 1, .pixels = {0, 128, 255}};
  const auto chunks = chunks_of(png_of(image));
  CHECK(chunks[0].data == std::string("\0\0\0\x03\0\0\0\x01\x08\0\0\0\0", 13));
  CHECK(inflated(chunks[1].data, 4) == std::string("\0\0\x80\xff", 4));
}
