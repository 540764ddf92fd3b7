// SPDX-License-Identifier: Apache-2.0
#include "codec/entropy/elias.hpp"

#include <cmath>
#include <vector>

#include "support/catch.hpp"
#include "support/level_oracle.hpp"

using namespace eqt;
using namespace eqt::codec;

namespace {
std::uint64_t window_of(CodeWord word) { return word.bits << (64 - word.length); }
}  // namespace

TEST_CASE("Elias codes return what they were given", "[elias]") {
  std::vector<std::uint64_t> numbers;
  for (std::uint64_t k = 1; k < 70000; ++k) numbers.push_back(k);
  for (int shift = 17; shift < 28; ++shift) {
    for (const std::uint64_t k : {(1u << shift) - 1, 1u << shift, (1u << shift) + 1}) {
      numbers.push_back(k);
    }
  }
  for (const std::uint64_t k : numbers) {
    for (const auto& [word, decoded] :
         {std::pair(gamma_code(k), gamma_decode(window_of(gamma_code(k)))),
          std::pair(delta_code(k), delta_decode(window_of(delta_code(k)))),
          std::pair(omega_code(k), omega_decode(window_of(omega_code(k))))}) {
      REQUIRE(decoded.value == k);
      REQUIRE(decoded.length == word.length);
    }
  }
}

TEST_CASE("omega lengths stay below 1 + 2.5 log2 k, reached at 4 and 16", "[elias]") {
  for (std::uint64_t k = 2; k < 65536; ++k) {
    REQUIRE(omega_length(k) <= 1 + 2.5 * std::log2(static_cast<double>(k)) + 1e-9);
  }
  REQUIRE(omega_length(4) == 6);
  REQUIRE(omega_length(16) == 11);
}

TEST_CASE("omega words up to 2^32 - 1 take 43 bits", "[elias]") {
  REQUIRE(omega_length(0xFFFFFFFFu) == 43);
}

TEST_CASE("windows that hold no code word are refused", "[elias]") {
  REQUIRE(gamma_decode(0).length == 0);
  REQUIRE(gamma_decode(std::uint64_t{1} << 34).length == 0);  // 29 zeros: 59 bits
  REQUIRE(delta_decode(0).length == 0);
  REQUIRE(omega_decode(~std::uint64_t{0}).length == 0);
}

TEST_CASE("read_omega reads a stream and stops at invalid bits", "[elias]") {
  std::vector<std::byte> bytes(4000);
  BitWriter writer(bytes);
  for (std::uint64_t k = 1; k < 1000; ++k) writer.put(omega_code(k).bits, omega_code(k).length);
  bytes.resize(writer.finish());
  BitReader reader(bytes);
  for (std::uint64_t k = 1; k < 1000; ++k) REQUIRE(read_omega(reader) == k);
  const std::vector<std::byte> ones(16, std::byte{0xFF});
  BitReader bad(ones);
  REQUIRE_THROWS_AS(read_omega(bad), Error);
}

TEST_CASE("read_gamma and read_delta read a stream and stop at invalid bits", "[elias]") {
  std::vector<std::byte> bytes(8000);
  BitWriter writer(bytes);
  for (std::uint64_t k = 1; k < 1000; ++k) {
    writer.put(gamma_code(k).bits, gamma_code(k).length);
    writer.put(delta_code(k * k).bits, delta_code(k * k).length);
  }
  bytes.resize(writer.finish());
  BitReader reader(bytes);
  for (std::uint64_t k = 1; k < 1000; ++k) {
    REQUIRE(read_gamma(reader) == k);
    REQUIRE(read_delta(reader) == k * k);
  }
  const std::vector<std::byte> zeros(16, std::byte{0});
  BitReader bad(zeros);
  REQUIRE_THROWS_AS(read_gamma(bad), Error);
  REQUIRE_THROWS_AS(read_delta(bad), Error);
  REQUIRE(bad.position() == 0);
}
