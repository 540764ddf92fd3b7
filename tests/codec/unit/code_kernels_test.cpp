// SPDX-License-Identifier: Apache-2.0
#include "codec/entropy/code_kernels.hpp"

#include <algorithm>
#include <vector>

#include "support/catch.hpp"
#include "support/code_cases.hpp"
#include "support/simd_targets.hpp"

using namespace eqt;
using namespace eqt::codec;
using namespace eqt::test;

namespace {
const std::vector<std::size_t> kCounts = {0,  1,  7,   8,   15,  16,  31,  32,  33,   63,
                                          64, 65, 127, 128, 129, 191, 255, 256, 1000, 20000};
}

TEST_CASE("counts of indices equal a plain count on every target", "[code_kernels]") {
  for_each_simd_target([] {
    for (const unsigned top : {1u, 3u, 6u, 7u, 8u, 13u, 14u, 15u, 31u, 127u}) {
      for (const std::size_t count : kCounts) {
        for (const auto& [name, codes] : code_cases(count, top)) {
          INFO(name << ", " << count << " codes up to " << top);
          IndexCounts expected{};
          for (const LevelCode code : codes) ++expected[code & 0x7Fu];
          REQUIRE(count_indices(codes, top + 1) == expected);
          REQUIRE(count_nonzeros(codes) == count - expected[0]);
        }
      }
    }
  });
}

TEST_CASE("signs are packed in order and restored on every target", "[code_kernels]") {
  for_each_simd_target([] {
    for (const std::size_t count : kCounts) {
      for (const auto& [name, codes] : code_cases(count, 7)) {
        INFO(name << ", " << count << " codes");
        std::vector<std::byte> row(sign_room(count), std::byte{0xAA});
        const std::size_t bits = pack_signs(codes, row);
        std::size_t k = 0;
        for (const LevelCode code : codes) {
          if ((code & 0x7Fu) == 0) continue;
          REQUIRE((std::to_integer<unsigned>(row[k / 8]) >> k % 8 & 1u) == code >> 7);
          ++k;
        }
        REQUIRE(bits == k);
        if (bits % 8 != 0) REQUIRE(std::to_integer<unsigned>(row[bits / 8]) >> bits % 8 == 0);
        std::vector<LevelCode> decoded = codes;
        for (LevelCode& code : decoded) code &= 0x7F;
        REQUIRE(apply_signs(row, decoded) == bits);
        REQUIRE(decoded == codes);
      }
    }
  });
}
