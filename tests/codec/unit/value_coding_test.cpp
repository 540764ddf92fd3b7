// SPDX-License-Identifier: Apache-2.0
#include "codec/sparse/value_coding.hpp"

#include <algorithm>
#include <limits>

#include "codec/bytes.hpp"
#include "codec/unit/codec_case.hpp"

using namespace eqt;
using namespace eqt::codec;
using namespace eqt::codec::testing;

namespace {

constexpr float kMax = std::numeric_limits<float>::max();
constexpr float kDenormal = std::numeric_limits<float>::denorm_min();

Bytes coded(std::span<const float> values, int bits) {
  Bytes bytes(value_bytes(values.size(), bits));
  write_values(values, bits, bytes.data());
  return bytes;
}

std::vector<float> round_trip(std::span<const float> values, int bits) {
  const Bytes bytes = coded(values, bits);
  check_values(bytes, bits);
  Workspace workspace;
  std::vector<float> out(values.size());
  const std::byte* from = as_float32(bytes, bits, workspace);
  for (float& value : out) {
    value = load<float>(from);
    from += sizeof(float);
  }
  return out;
}

}  // namespace

TEST_CASE("32 bits are the values themselves", "[values]") {
  for (const std::size_t count : kCounts) {
    const auto values = gaussian(count);
    REQUIRE(same_bits(round_trip(values, 32), values));
  }
}

TEST_CASE("16 bits keep 11 significant bits down to 2^-28 of the largest value, for any size of it",
          "[values]") {
  for (const std::size_t count : kCounts) {
    for (const double deviation : {1e-44, 1e-38, 1e-20, 1e-6, 1.0, 1e6, 1e37}) {
      const auto values = gaussian(count, deviation, count + 1);
      const auto out = round_trip(values, 16);
      float largest = 0;
      for (const float v : values) largest = std::max(largest, std::abs(v));
      for (std::size_t i = 0; i < count; ++i) {
        const double error = std::abs(double{out[i]} - values[i]);
        REQUIRE(error <= std::max(0x1p-11 * std::abs(double{values[i]}), 0x1p-39 * largest) +
                             0.5 * double{kDenormal});
      }
      on_every_target([&] { REQUIRE(same_bits(round_trip(values, 16), out)); });
    }
  }
}

TEST_CASE("16 bits of powers of two and of their multiples are exact", "[values]") {
  const std::vector<float> values{kDenormal, -3 * kDenormal, 0.0f};
  REQUIRE(round_trip(values, 16) == values);
  const std::vector<float> wide{0x1p127f, -0x1p110f, 0x1.ffcp126f, 0.0f, 0x1p103f};
  REQUIRE(round_trip(wide, 16) == wide);
}

TEST_CASE("the largest float stays finite in 16 bits", "[values]") {
  const std::vector<float> values{kMax, -kMax, 0x1.ffep127f, 1.0f, 0x1.ffcp127f};
  REQUIRE(round_trip(values, 16) ==
          std::vector<float>{0x1.ffcp127f, -0x1.ffcp127f, 0x1.ffcp127f, 0.0f, 0x1.ffcp127f});
}

TEST_CASE("known halves", "[values]") {
  // The largest is 3 = 1.5 * 2^1: exponent 1 - 14 = -13; 3 * 2^13 = 24576 is the half 0x7600.
  const Bytes bytes = coded(std::vector<float>{3.0f, -0.5f, 0.0f}, 16);
  REQUIRE(load<std::int16_t>(bytes.data()) == -13);
  REQUIRE(load<std::uint16_t>(bytes.data() + 2) == 0x7600);
  REQUIRE(load<std::uint16_t>(bytes.data() + 4) == 0xEC00);
  REQUIRE(load<std::uint16_t>(bytes.data() + 6) == 0);
}

TEST_CASE("invalid values are refused", "[values]") {
  const auto wrong = [](Bytes bytes, int bits) {
    return refusal(Kind::wire, [&] { check_values(bytes, bits); });
  };
  Bytes words(12);
  store(words.data() + 8, std::numeric_limits<float>::infinity());
  REQUIRE(contains(wrong(words, 32), "finite"));
  Bytes halves(6);
  store(halves.data() + 4, std::uint16_t{0xF800});
  REQUIRE(contains(wrong(halves, 16), "0x7800"));
  store(halves.data() + 4, std::uint16_t{0x7C00});
  REQUIRE(contains(wrong(halves, 16), "0x7c00"));
  for (const int exponent : {-164, 114, 32767, -32768}) {
    store(halves.data(), static_cast<std::int16_t>(exponent));
    REQUIRE(contains(wrong(halves, 16), "exponent from -163 to 113"));
  }
}

TEST_CASE("values have 32 or 16 bits", "[values]") {
  REQUIRE(checked_value_bits(16, "topk") == 16);
  REQUIRE(checked_value_bits(32, "topk") == 32);
  for (const int bits : {0, 8, 24, 64}) {
    REQUIRE(contains(refusal(Kind::usage, [&] { checked_value_bits(bits, "topk"); }), "topk"));
  }
}
