// SPDX-License-Identifier: Apache-2.0
#include "codec/casts.hpp"

#include <bit>
#include <limits>

#include "codec/bytes.hpp"
#include "codec/catalogue.hpp"
#include "codec/finite.hpp"
#include "codec/unit/codec_case.hpp"
#include "codec/unit/vectors.hpp"

using namespace eqt;
using namespace eqt::codec;
using namespace eqt::codec::testing;

namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

/// A 16-bit format as IEEE 754 defines it: `fraction_bits`, exponent bias, the bits of infinity.
struct Definition {
  int fraction_bits;
  int bias;
  std::uint32_t infinity;
  std::uint32_t (*cast)(std::span<const float>, std::byte*);
  std::uint32_t (*add)(const std::byte*, float, std::span<float>);

  /// The value of positive bits; at `infinity`, the power of two that would come next.
  float value(std::uint32_t bits) const {
    const int exponent = static_cast<int>(bits >> fraction_bits);
    const int fraction = static_cast<int>(bits & ((1u << fraction_bits) - 1));
    const double significand = exponent == 0 ? fraction : fraction + std::ldexp(1.0, fraction_bits);
    return static_cast<float>(
        std::ldexp(significand, std::max(exponent, 1) - bias - fraction_bits));
  }
};

const Definition kDefinitions[] = {{10, 15, kHalfInfinity, cast_to_half, add_halves},
                                   {7, 127, kBfloatInfinity, cast_to_bfloat, add_bfloats}};

std::vector<std::uint16_t> cast_all(const Definition& format, std::span<const float> values) {
  Bytes bytes(2 * values.size());
  format.cast(values, bytes.data());
  std::vector<std::uint16_t> words(values.size());
  for (std::size_t i = 0; i < words.size(); ++i) words[i] = load<std::uint16_t>(&bytes[2 * i]);
  return words;
}

float midpoint(float low, float high) { return static_cast<float>(low + (double{high} - low) / 2); }

}  // namespace

TEST_CASE("casts round to nearest, ties to even, on every target", "[casts]") {
  for (const Definition& format : kDefinitions) {
    // Between each two neighbours: themselves, the tie, and the floats around the tie.
    std::vector<float> values;
    std::vector<std::uint16_t> expected;
    for (std::uint32_t bits = 0; bits < format.infinity; ++bits) {
      const auto lower = static_cast<std::uint16_t>(bits);
      const auto upper = static_cast<std::uint16_t>(bits + 1);
      const float low = format.value(lower);
      if (upper == format.infinity && format.bias == 127) continue;  // 2^128 is no float
      const float tie = midpoint(low, format.value(upper));
      for (const auto& [value, word] :
           {std::pair{low, lower}, std::pair{std::nextafter(tie, -kInfinity), lower},
            std::pair{tie, lower % 2 == 0 ? lower : upper},
            std::pair{std::nextafter(tie, kInfinity), upper}}) {
        values.push_back(value);
        expected.push_back(word);
        values.push_back(-value);
        expected.push_back(static_cast<std::uint16_t>(word | 0x8000));
      }
    }
    on_every_target([&] { REQUIRE(cast_all(format, values) == expected); });
  }
}

TEST_CASE("casts of NaN and of values that are too large", "[casts]") {
  on_every_target([] {
    REQUIRE(cast_all(kDefinitions[0],
                     std::vector{65519.996f, 65520.0f, -1e30f, kInfinity, -kInfinity}) ==
            std::vector<std::uint16_t>{0x7BFF, 0x7C00, 0xFC00, 0x7C00, 0xFC00});
    REQUIRE(cast_all(kDefinitions[1], std::vector{std::bit_cast<float>(0x7F7F7FFFu),
                                                  std::bit_cast<float>(0x7F7F8000u),
                                                  std::numeric_limits<float>::max(), -kInfinity}) ==
            std::vector<std::uint16_t>{0x7F7F, 0x7F80, 0x7F80, 0xFF80});
    for (const Definition& format : kDefinitions) {
      for (const std::uint32_t nan :
           {0x7F800001u, 0x7FC00000u, 0x7FFFFFFFu, 0xFF800001u, 0xFFFFFFFFu}) {
        const auto word = cast_all(format, std::vector{std::bit_cast<float>(nan)})[0];
        REQUIRE((word & 0x7FFFu) > format.infinity);
      }
    }
  });
}

TEST_CASE("every finite 16-bit pattern is added as its exact value", "[casts]") {
  for (const Definition& format : kDefinitions) {
    std::vector<std::uint16_t> words;
    std::vector<float> expected;
    const float scale = 0.37f;
    for (std::uint32_t bits = 0; bits < format.infinity; ++bits) {
      words.push_back(static_cast<std::uint16_t>(bits));
      expected.push_back(1.5f + scale * format.value(bits));
      words.push_back(static_cast<std::uint16_t>(bits | 0x8000));
      expected.push_back(1.5f + scale * -format.value(bits));
    }
    on_every_target([&] {
      std::vector<float> sum(words.size(), 1.5f);
      const auto* bytes = reinterpret_cast<const std::byte*>(words.data());
      REQUIRE(format.add(bytes, scale, sum) == format.infinity - 1);
      REQUIRE(same_bits(sum, expected));
    });
  }
}

TEST_CASE("casts agree with the reference vectors", "[casts][vectors]") {
  for_each_vector_file([](const nlohmann::json& vectors) {
    const auto& casts = vectors.at("casts");
    const auto input = casts.at("input_f32").get<std::vector<float>>();
    on_every_target([&] {
      REQUIRE(cast_all(kDefinitions[0], input) ==
              casts.at("fp16_hex").get<std::vector<std::uint16_t>>());
      REQUIRE(cast_all(kDefinitions[1], input) ==
              casts.at("bf16_hex").get<std::vector<std::uint16_t>>());
    });
  });
}

TEST_CASE("a finite value that overflows 16 bits is an error with advice", "[casts]") {
  std::vector<float> values(100, 1.0f);
  values[57] = -70000.0f;
  const auto fp16 = make_compressor("fp16");
  const std::string half = refusal(Kind::diverged, [&] { encode(*fp16, values); });
  REQUIRE(contains(half, "-70000 at index 57 of 100"));
  REQUIRE(contains(half, "compressor.name=bf16"));
  const auto bf16 = make_compressor("bf16");
  REQUIRE_NOTHROW(encode(*bf16, values));
  values[99] = std::numeric_limits<float>::max();
  const std::string bfloat = refusal(Kind::diverged, [&] { encode(*bf16, values); });
  REQUIRE(contains(bfloat, "index 99 of 100"));
  REQUIRE(contains(bfloat, "compressor.name=none"));
}

TEST_CASE("the first value that is not finite is found on every target", "[finite]") {
  on_every_target([] {
    for (const std::size_t count : kCounts) {
      std::vector<float> values = gaussian(count);
      if (count > 2) values[1] = std::numeric_limits<float>::max();
      if (count > 2) values[2] = -std::numeric_limits<float>::denorm_min();
      REQUIRE(first_non_finite(values) == count);
      for (std::size_t i = 0; i < count; i += 1 + count / 50) {
        for (const float bad : {kInfinity, -kInfinity, kNan, -kNan}) {
          std::vector<float> broken = values;
          broken[i] = broken.back() = bad;
          REQUIRE(first_non_finite(broken) == i);
        }
      }
    }
  });
}
