// SPDX-License-Identifier: Apache-2.0
#include "codec/entropy/bit_stream.hpp"

#include <vector>

#include "core/random.hpp"
#include "support/catch.hpp"

using namespace eqt;
using namespace eqt::codec;

TEST_CASE("bits are written most significant first", "[bit_stream]") {
  std::vector<std::byte> bytes(3);
  BitWriter writer(bytes);
  writer.put(0b101, 3);
  writer.put(0b0000011111, 10);
  REQUIRE(writer.finish() == 2);
  REQUIRE(bytes[0] == std::byte{0b10100000});
  REQUIRE(bytes[1] == std::byte{0b11111000});
}

TEST_CASE("every width from 1 to 57 bits returns as written", "[bit_stream]") {
  const RandomStream random({1, 0, 0, 0});
  for (int width = 1; width <= 57; ++width) {
    std::vector<std::uint64_t> words;
    for (std::uint32_t i = 0; i < 50; ++i) {
      words.push_back((std::uint64_t{random.bits(2 * i)} << 32 | random.bits(2 * i + 1)) >>
                      (64 - width));
    }
    const std::size_t size = (50 * static_cast<std::size_t>(width) + 7) / 8;
    std::vector<std::byte> bytes(size);
    BitWriter writer(bytes);
    for (const std::uint64_t word : words) writer.put(word, width);
    REQUIRE(writer.finish() == size);
    BitReader reader(bytes);
    for (const std::uint64_t word : words) REQUIRE(reader.take(width) == word);
    REQUIRE(reader.finish() == size);
  }
}

TEST_CASE("a writer refuses to leave its buffer", "[bit_stream]") {
  std::vector<std::byte> bytes(2);
  BitWriter writer(bytes);
  writer.put(0xFFFF, 16);
  REQUIRE_THROWS_AS(writer.put(0xFF, 8), Error);
}

TEST_CASE("a reader past the end reads zeros and reports it", "[bit_stream]") {
  std::vector<std::byte> bytes(3, std::byte{0xFF});
  BitReader reader(bytes);
  REQUIRE(reader.take(20) == 0xFFFFF);
  REQUIRE(reader.take(10) == 0b1111000000);
  REQUIRE(reader.overrun());
  REQUIRE(reader.take(57) == 0);
  REQUIRE_THROWS_AS(reader.finish(), Error);
}

TEST_CASE("ones in the padding are malformed", "[bit_stream]") {
  const std::vector<std::byte> clean = {std::byte{0b11100000}};
  BitReader good(clean);
  good.skip(3);
  REQUIRE(good.finish() == 1);
  const std::vector<std::byte> dirty = {std::byte{0b11100001}};
  BitReader bad(dirty);
  bad.skip(3);
  REQUIRE_THROWS_AS(bad.finish(), Error);
}
