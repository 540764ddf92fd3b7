// SPDX-License-Identifier: Apache-2.0
// The passes over integer codes against plain loops, on every instruction set of this machine.

#include "codec/integer/integer_kernels.hpp"

#include <cmath>
#include <random>
#include <vector>

#include "support/catch.hpp"
#include "support/simd_targets.hpp"

using namespace eqt;
using namespace eqt::codec;

namespace {

const std::vector<std::size_t> kCounts = {0, 1, 7, 8, 9, 63, 64, 65, 127, 128, 130, 4096, 4161};

template <typename T>
std::vector<T> codes_up_to(std::uint32_t limit, std::size_t count) {
  std::mt19937 random(limit + static_cast<std::uint32_t>(count));
  const int most = static_cast<int>(limit);
  std::uniform_int_distribution<int> draw(-most, most);
  std::vector<T> codes(count);
  for (T& code : codes) code = static_cast<T>(draw(random));
  if (count > 2) codes[0] = static_cast<T>(most), codes[count - 1] = static_cast<T>(-most);
  return codes;
}

/// One bit after the other, as FORMAT.md says.
template <typename T>
std::vector<std::byte> packed_plainly(const std::vector<T>& codes, std::uint32_t limit,
                                      std::size_t width) {
  std::vector<std::byte> bytes;
  for (std::size_t start = 0; start < codes.size(); start += 64) {
    const std::size_t n = std::min<std::size_t>(64, codes.size() - start);
    for (std::size_t plane = 0; plane < width; ++plane) {
      const std::size_t at = bytes.size();
      bytes.resize(at + (n + 7) / 8);
      for (std::size_t i = 0; i < n; ++i) {
        const auto u = static_cast<std::uint32_t>(codes[start + i] + static_cast<int>(limit));
        bytes[at + i / 8] |= static_cast<std::byte>((u >> plane & 1) << i % 8);
      }
    }
  }
  return bytes;
}

template <typename T>
void check_packing(std::uint32_t limit) {
  const int width = static_cast<int>(std::ceil(std::log2(2.0 * limit + 1)));
  REQUIRE(code_width(limit) == width);
  for (const std::size_t count : kCounts) {
    INFO(count << " codes up to " << limit);
    const auto codes = codes_up_to<T>(limit, count);
    const auto expected = packed_plainly(codes, limit, static_cast<std::size_t>(width));
    REQUIRE(packed_bytes(count, width) == expected.size());
    std::vector<std::byte> packed(expected.size());
    pack_codes(std::span<const T>(codes), limit, packed);
    REQUIRE(packed == expected);
    std::vector<T> back(count);
    REQUIRE(unpack_codes(packed, limit, std::span(back)));
    REQUIRE(back == codes);
  }
}

}  // namespace

TEST_CASE("codes are packed as the format says on every target", "[integer_kernels]") {
  test::for_each_simd_target([] {
    for (const std::uint32_t limit : {1u, 2u, 3u, 4u, 7u, 14u, 28u, 63u, 64u, 127u}) {
      check_packing<std::int8_t>(limit);
      check_packing<std::int16_t>(limit);
    }
    for (const std::uint32_t limit : {128u, 254u, 255u, 256u, 1016u, 5000u, 32766u, 32767u}) {
      check_packing<std::int16_t>(limit);
    }
  });
}

TEST_CASE("a code beyond the limit and a set padding bit are detected at any position",
          "[integer_kernels]") {
  test::for_each_simd_target([] {
    for (const std::uint32_t limit : {1u, 5u, 7u, 127u}) {
      for (const std::size_t count : {1u, 9u, 64u, 200u, 331u}) {
        const std::vector<std::int8_t> codes(count, static_cast<std::int8_t>(-1));
        const int width = code_width(limit);
        const auto clean = packed_plainly(codes, limit, static_cast<std::size_t>(width));
        std::vector<std::int8_t> back(count);
        REQUIRE(unpack_codes(clean, limit, std::span(back)));
        for (std::size_t i = 0; i < count; ++i) {
          // All bits set: 2^width - 1, above 2 limit.
          auto bad = clean;
          const std::size_t in_block = std::min<std::size_t>(64, count - i / 64 * 64);
          for (std::size_t j = 0; j < static_cast<std::size_t>(width); ++j) {
            const std::size_t at = packed_bytes(i / 64 * 64, width) + j * ((in_block + 7) / 8);
            bad[at + i % 64 / 8] |= static_cast<std::byte>(1u << i % 8);
          }
          REQUIRE_FALSE(unpack_codes(bad, limit, std::span(back)));
        }
        if (count % 8 == 0) continue;
        auto padded = clean;
        padded.back() |= std::byte{0x80};
        REQUIRE_FALSE(unpack_codes(padded, limit, std::span(back)));
      }
    }
  });
}

TEST_CASE("adding and scaling codes equals plain loops on every target", "[integer_kernels]") {
  test::for_each_simd_target([] {
    for (const std::size_t count : kCounts) {
      const auto codes = codes_up_to<std::int8_t>(63, count);
      const auto wide = codes_up_to<std::int16_t>(30000, count);
      auto sums = codes_up_to<std::int8_t>(64, count);
      auto wide_sums = wide;
      const auto before = sums;
      codec::add_codes(codes, std::span(sums));
      codec::add_codes(codes, std::span(wide_sums));
      const float step = 0.1f;
      std::vector<float> scaled(count), wide_scaled(count), left(count, 1.7f);
      scale_codes(std::span<const std::int8_t>(codes), step, scaled);
      scale_codes(std::span<const std::int16_t>(wide), step, wide_scaled);
      subtract_scaled(codes, step, left);
      for (std::size_t i = 0; i < count; ++i) {
        REQUIRE(sums[i] == before[i] + codes[i]);
        REQUIRE(wide_sums[i] == wide[i] + codes[i]);
        REQUIRE(scaled[i] == step * static_cast<float>(codes[i]));
        REQUIRE(wide_scaled[i] == step * static_cast<float>(wide[i]));
        REQUIRE(left[i] == 1.7f - scaled[i]);
      }
    }
  });
}

TEST_CASE("signs and magnitudes become integers on every target", "[integer_kernels]") {
  test::for_each_simd_target([] {
    std::vector<std::int8_t> codes(256);
    for (int i = 0; i < 256; ++i) codes[static_cast<std::size_t>(i)] = static_cast<std::int8_t>(i);
    signed_from_magnitudes(codes);
    for (int i = 0; i < 128; ++i) {
      REQUIRE(codes[static_cast<std::size_t>(i)] == i);
      REQUIRE(codes[static_cast<std::size_t>(i + 128)] == -i);
    }
  });
}
