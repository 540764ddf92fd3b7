// SPDX-License-Identifier: Apache-2.0
#include "core/checked.hpp"

#include <cstdint>
#include <string>
#include <vector>

#include "core/checksum.hpp"
#include "support/catch.hpp"

using namespace eqt;

TEST_CASE("a product that overflows is an error", "[checked]") {
  constexpr std::uint64_t kMost = ~std::uint64_t{0};
  CHECK(checked_product<std::uint64_t>({}, Kind::data, "bytes") == 1);
  CHECK(checked_product<std::uint64_t>({kMost, 1}, Kind::data, "bytes") == kMost);
  CHECK(checked_product<std::uint64_t>({0, kMost, 2}, Kind::data, "bytes") == 0);
  CHECK(checked_product<std::uint64_t>({std::uint64_t{1} << 32, (std::uint64_t{1} << 32) - 1},
                                       Kind::data, "bytes") == kMost - (kMost >> 32));
  try {
    (void)checked_product<std::uint64_t>({std::uint64_t{1} << 32, std::uint64_t{1} << 32},
                                         Kind::data, "bytes of a file");
    FAIL("2^64 was taken");
  } catch (const Error& error) {
    CHECK(error.kind() == Kind::data);
    CHECK(std::string(error.what()).find("4294967296 x 4294967296") != std::string::npos);
  }
  CHECK_THROWS_AS(checked_product<std::uint32_t>({65536, 65536}, Kind::usage, "steps"), Error);
}

TEST_CASE("the checksum is XXH3 and changes with every single bit", "[checked]") {
  // Published with the algorithm: XXH3, 64 bits, of no bytes.
  CHECK(checksum({}) == 0x2D06800538D394C2ull);
  std::vector<std::byte> bytes(1000);
  const std::uint64_t before = checksum(bytes);
  for (std::size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
    const std::byte mask = std::byte{1} << static_cast<int>(bit % 8);
    bytes[bit / 8] ^= mask;
    if (checksum(bytes) == before) FAIL("bit " << bit << " is not seen");
    bytes[bit / 8] ^= mask;
  }
  CHECK(checksum(bytes) == before);
  CHECK(checksum(bytes, 1) != before);
}
