// SPDX-License-Identifier: Apache-2.0
#include "codec/entropy/gap_code.hpp"

#include <vector>

#include "codec/entropy/elias.hpp"
#include "core/error.hpp"
#include "support/catch.hpp"
#include "support/code_cases.hpp"
#include "support/simd_targets.hpp"

using namespace eqt;
using namespace eqt::codec;
using namespace eqt::test;

namespace {

std::uint64_t plain_gap_bits(const std::vector<LevelCode>& codes) {
  std::uint64_t bits = 0;
  std::size_t next = 0;
  for (std::size_t i = 0; i < codes.size(); ++i) {
    if ((codes[i] & 0x7Fu) == 0) continue;
    bits += static_cast<std::uint64_t>(omega_length(i + 1 - next));
    next = i + 1;
  }
  return bits;
}

}  // namespace

TEST_CASE("gap lengths equal those of the words, at every place of a gap", "[gap_code]") {
  for_each_simd_target([] {
    for (const std::size_t count : {0u, 1u, 63u, 64u, 65u, 300u, 5000u}) {
      for (const auto& [name, codes] : code_cases(count, 3)) {
        INFO(name << ", " << count << " codes");
        REQUIRE(gap_bits(codes) == plain_gap_bits(codes));
      }
    }
    for (std::size_t first = 0; first < 130; first += 3) {
      for (const std::size_t gap : {1u,  2u,  3u,  4u,  7u,   8u,   15u,  16u,  31u,  32u,
                                    62u, 63u, 64u, 65u, 127u, 128u, 129u, 255u, 256u, 600u}) {
        std::vector<LevelCode> codes(900);
        codes[first] = 0x81;
        codes[first + gap] = 1;
        INFO("nonzeros at " << first << " and " << first + gap);
        REQUIRE(gap_bits(codes) == plain_gap_bits(codes));
      }
    }
  });
}

TEST_CASE("streams have the computed length and are decoded correctly", "[gap_code]") {
  for (const unsigned top : {1u, 3u, 7u, 15u, 127u}) {
    const GapCode code(top + 1);
    for (const std::size_t count : {1u, 2u, 63u, 64u, 65u, 1000u, 5000u}) {
      for (const auto& [name, codes] : code_cases(count, top)) {
        INFO(name << ", " << count << " codes up to " << top);
        const IndexCounts counts = count_indices(codes, top + 1);
        const std::uint64_t bits = code.bits_without_gaps(counts) + gap_bits(codes);
        std::vector<std::byte> bytes(bits / 8 + 8);
        BitWriter writer(bytes);
        code.write(codes, count - counts[0], writer);
        bytes.resize(writer.finish());
        REQUIRE(bytes.size() == (bits + 7) / 8);
        bytes.shrink_to_fit();
        BitReader reader(bytes);
        std::vector<LevelCode> decoded(count, 0xEE);
        code.read(reader, decoded);
        REQUIRE(reader.position() == bits);
        REQUIRE(decoded == codes);
        // One value less: the last nonzero is missing, unless a zero follows it.
        if ((codes.back() & 0x7Fu) == 0) continue;
        BitReader again(bytes);
        REQUIRE_THROWS_AS(code.read(again, std::span(decoded).first(count - 1)), Error);
      }
    }
  }
}
