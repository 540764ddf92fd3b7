// SPDX-License-Identifier: Apache-2.0
#include "int8/quantize.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "core/error.hpp"
#include "support/catch.hpp"
#include "support/simd_targets.hpp"

using namespace eqt;
using namespace eqt::int8;
using Catch::Matchers::ContainsSubstring;

namespace {

/// About normal values; the largest magnitude is that of the first.
std::vector<float> noise(std::size_t count, float scale) {
  const RandomStream stream({7, 0, 0, 0});
  std::vector<float> x(count);
  for (std::size_t i = 0; i < count; ++i) {
    float sum = -2;
    for (std::uint32_t j = 0; j < 4; ++j)
      sum += stream.uniform(static_cast<std::uint32_t>(4 * i) + j);
    x[i] = sum * scale;
  }
  return x;
}

std::vector<float> without_signs(std::vector<float> x) {
  for (float& v : x) v = std::abs(v);
  return x;
}

/// The largest |x - scale (q - zero)| in scales.
template <typename T>
double error_in_scales(std::span<const float> x, const std::vector<T>& q, int zero, float scale) {
  double largest = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double decoded = static_cast<double>(scale) * (q[i] - zero);
    largest = std::max(largest, std::abs(x[i] - decoded) / scale);
  }
  return largest;
}

constexpr double kRounding = 1e-4;  // of floats, in scales

/// Returns what stochastic rounding adds to value i: the middle of the 2^-16 that 16 random bits
/// name.
float fraction_of(const RandomStream& stream, std::size_t i) {
  const std::uint32_t word = stream.bits(static_cast<std::uint32_t>(i / 32 * 16 + i % 16));
  const std::uint32_t bits = i % 32 < 16 ? word & 0xFFFFu : word >> 16;
  return static_cast<float>(2 * bits + 1) * 0x1p-17f;
}

}  // namespace

TEST_CASE("values are at most half a scale away to nearest, less than one stochastically",
          "[int8][quantize]") {
  test::for_each_simd_target([] {
    for (const std::size_t count : {0u, 1u, 2u, 7u, 31u, 32u, 33u, 64u, 1000u, 1021u}) {
      for (const float size : {1.0f, 1e-30f, 1e30f, 1e-37f, 1e-44f}) {
        const std::vector<float> x = noise(count, size), positive = without_signs(x);
        std::vector<std::int8_t> q(count);
        std::vector<std::int16_t> wide(count);
        INFO(count << " values of size " << size);
        float scale = quantize_unsigned(positive, q);
        CHECK(error_in_scales(positive, q, kUnsignedZeroPoint, scale) <= 0.5 + kRounding);
        std::vector<std::int8_t> again(count);
        quantize_unsigned_again(scale, positive, again);
        CHECK(again == q);
        std::vector<float> above = x;
        for (float& v : above) v = std::max(v, -0.17f);
        scale = quantize_shifted(largest_magnitude(above), above, q);
        CHECK(error_in_scales(above, q, kShiftedZeroPoint, scale) <= 0.5 + kRounding);
        quantize_shifted_again(scale, above, again);
        CHECK(again == q);
        scale = quantize_signed(x, q);
        CHECK(error_in_scales(x, q, 0, scale) <= 0.5 + kRounding);
        CHECK(std::ranges::find(q, std::int8_t{-128}) == q.end());
        quantize_signed_again(scale, x, again);
        CHECK(again == q);
        scale = quantize_wide(x, wide);
        CHECK(error_in_scales(x, wide, 0, scale) <= 0.5 + 64 * kRounding);
        scale = quantize_stochastic(x, q, {1, 2, 3, 4});
        CHECK(error_in_scales(x, q, 0, scale) < 1 + kRounding);
        CHECK(std::ranges::find(q, std::int8_t{-128}) == q.end());
      }
    }
  });
}

TEST_CASE("the largest magnitude becomes the last integer, zero the zero point",
          "[int8][quantize]") {
  test::for_each_simd_target([] {
    const std::vector<float> x = {0.0f, -3.0f, -0.0f, 1.6f, 3.0f};
    std::vector<std::int8_t> q(x.size());
    CHECK(quantize_signed(x, q) == 3.0f / 127);
    CHECK(q == std::vector<std::int8_t>{0, -127, 0, 68, 127});  // 67.7
    for (std::uint32_t block = 0; block < 100; ++block) {
      CHECK(quantize_stochastic(x, q, {1, 0, 0, 0}, block) == 3.0f / 127);
      CHECK(q[0] == 0);
      CHECK(q[2] == 0);
      CHECK(q[1] <= -126);
      CHECK(q[4] >= 126);
    }
    const std::vector<float> positive = {0.0f, 2.0f, -0.0f, 1.01f};
    q.resize(4);
    CHECK(quantize_unsigned(positive, q) == 2.0f / 255);
    CHECK(q == std::vector<std::int8_t>{-128, 127, -128, 1});  // 128.8
    // 16 steps of the least scale reach to -0.17.
    const std::vector<float> activations = {0.0f, 2.0f, -0.17f, 23.9f};
    CHECK(quantize_shifted(2.0f, std::span(activations).first(3), std::span(q).first(3)) ==
          Approx(0.17 / 16));
    CHECK(q[0] == -112);
    CHECK(q[1] == -112 + 188);  // 188.2
    CHECK(q[2] == -128);
    CHECK(quantize_shifted(23.9f, activations, q) == Approx(0.1));
    CHECK(q == std::vector<std::int8_t>{-112, -92, -114, 127});
    const std::vector<float> zeros(70);
    q.assign(70, 9);
    CHECK(quantize_unsigned(zeros, q) == 1.0f);
    CHECK(q == std::vector<std::int8_t>(70, -128));
    CHECK(quantize_signed(zeros, q) == 1.0f);
    CHECK(q == std::vector<std::int8_t>(70, 0));
    CHECK(quantize_stochastic(zeros, q, {1, 0, 0, 0}) == 1.0f);
    CHECK(q == std::vector<std::int8_t>(70, 0));
  });
}

TEST_CASE("values beyond the range are cut at its ends, however large", "[int8][quantize]") {
  constexpr float kRange = 2.0f;
  std::vector<float> x = noise(203, 4.0f);
  x[3] = x[150] = 1e30f;
  x[4] = x[151] = -1e30f;
  x[5] = x[202] = 5e9f;  // 2^31 and more steps
  x[6] = -5e9f;
  const auto expected = [&](float steps, int low, int high, int zero_point) {
    const float inverse = 1 / (kRange / steps);
    std::vector<std::int8_t> q;
    for (const float value : x)
      q.push_back(static_cast<std::int8_t>(
          std::clamp(std::nearbyint(double{value * inverse}), double(low), double(high)) +
          zero_point));
    return q;
  };
  const auto rounded_down = [&] {
    const RandomStream stream({1, 2, 3, 4}, 0);
    std::vector<std::int8_t> q;
    for (std::size_t i = 0; i < x.size(); ++i) {
      const float moved = x[i] * (1 / (kRange / 127)) + fraction_of(stream, i);
      q.push_back(static_cast<std::int8_t>(std::clamp(std::floor(double{moved}), -127.0, 127.0)));
    }
    return q;
  };
  test::for_each_simd_target([&] {
    std::vector<std::int8_t> q(x.size());
    quantize_unsigned(kRange, x, q);
    CHECK(q == expected(255, 0, 255, kUnsignedZeroPoint));
    quantize_shifted(kRange + 1, x, q);  // at least 0.17 * 239 / 16
    CHECK(q[3] == 127);
    CHECK(q[5] == 127);
    CHECK(q[4] == -128);
    CHECK(q[6] == -128);
    quantize_signed(kRange, x, q);
    CHECK(q == expected(127, -127, 127, 0));
    quantize_stochastic(kRange, x, q, {1, 2, 3, 4}, 0, 0);
    CHECK(q == rounded_down());
    std::vector<std::int16_t> wide(x.size());
    quantize_wide(kRange, x, wide);
    CHECK(wide[3] == kWide);
    CHECK(wide[5] == kWide);
    CHECK(wide[4] == -kWide);
    CHECK(wide[6] == -kWide);
  });
}

TEST_CASE("one huge value leaves the others at zero", "[int8][quantize]") {
  std::vector<float> x(100, 1.0f);
  x[41] = std::numeric_limits<float>::max();
  std::vector<std::int8_t> q(100);
  quantize_signed(x, q);
  CHECK(q[41] == 127);
  CHECK(std::ranges::count(q, std::int8_t{0}) == 99);
}

TEST_CASE("stochastic rounding has the right mean, also at the ends", "[int8][quantize]") {
  constexpr int kSeeds = 10000;
  const std::vector<float> x = {127.0f, -127.0f, 126.9f, -126.3f, 0.5f,  -0.01f, 1e-3f,
                                63.7f,  -64.2f,  12.75f, 100.6f,  -3.2f, 0.999f, 5.0f};
  std::vector<double> sums(x.size());
  std::vector<std::int8_t> q(x.size());
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    const float scale = quantize_stochastic(x, q, {seed, 0, 0, 0});
    for (std::size_t i = 0; i < x.size(); ++i) sums[i] += static_cast<double>(q[i]) * scale;
  }
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double up = std::abs(x[i]) - std::floor(std::abs(x[i]));
    const double standard_error = std::sqrt(up * (1 - up) / kSeeds);
    INFO(x[i]);
    CHECK(std::abs(sums[i] / kSeeds - x[i]) <= 5 * standard_error + 1e-4);
  }
}

TEST_CASE("random bits differ by key, block and index, and not by target", "[int8][quantize]") {
  const std::vector<float> x(4099, 0.5f);
  auto halves = x;
  halves[0] = 127;
  std::vector<std::int8_t> first(x.size()), q(x.size());
  quantize_stochastic(halves, first, {1, 0, 0, 0}, 5);
  const auto differ = [&] {
    std::size_t count = 0;
    for (std::size_t i = 0; i < q.size(); ++i) count += q[i] != first[i] ? 1u : 0u;
    return count;
  };
  const auto ones = static_cast<double>(std::ranges::count(first, std::int8_t{1}));
  CHECK(std::abs(ones - 2049) < 5 * 32);
  quantize_stochastic(halves, q, {1, 0, 0, 0}, 6);
  CHECK(differ() > 1800);
  quantize_stochastic(halves, q, {2, 0, 0, 0}, 5);
  CHECK(differ() > 1800);
  test::for_each_simd_target([&] {
    quantize_stochastic(halves, q, {1, 0, 0, 0}, 5);
    CHECK(differ() == 0);
  });
}

TEST_CASE("a value that is not finite is an error that names the tensor", "[int8][quantize]") {
  test::for_each_simd_target([] {
    const float nan = std::numeric_limits<float>::quiet_NaN();
    const float infinity = std::numeric_limits<float>::infinity();
    for (const float bad : {nan, -nan, infinity, -infinity}) {
      for (const std::size_t place : {0u, 17u, 99u}) {
        std::vector<float> x(100, 1.0f);
        x[place] = bad;
        std::vector<std::int8_t> q(100);
        std::vector<std::int16_t> wide(100);
        const std::string sentence = "layer 3: expected finite values";
        CHECK_THROWS_WITH(quantize_unsigned(x, q, "layer 3"), ContainsSubstring(sentence));
        CHECK_THROWS_WITH(quantize_signed(x, q, "layer 3"), ContainsSubstring(sentence));
        CHECK_THROWS_WITH(quantize_stochastic(x, q, {}, 0, "layer 3"), ContainsSubstring(sentence));
        CHECK_THROWS_WITH(quantize_wide(x, wide, "layer 3"),
                          ContainsSubstring("index " + std::to_string(place)));
      }
    }
  });
}

TEST_CASE("dequantizing is the product with the scale", "[int8][quantize]") {
  std::vector<std::int8_t> q(256);
  for (int i = 0; i < 256; ++i) q[static_cast<std::size_t>(i)] = static_cast<std::int8_t>(i - 128);
  std::vector<float> x(256);
  test::for_each_simd_target([&] {
    dequantize(q, -128, 0.1f, x);
    for (int i = 0; i < 256; ++i)
      CHECK(x[static_cast<std::size_t>(i)] == static_cast<float>(i) * 0.1f);
  });
}

TEST_CASE("stochastic rounding takes 16 bits of the words that it says", "[int8][quantize]") {
  std::vector<float> x = noise(101, 40.0f);
  x[0] = 127;
  const RandomStream stream({9, 8, 7, 6}, 5);
  std::vector<std::int8_t> expected(x.size()), q(x.size());
  for (std::size_t i = 0; i < x.size(); ++i)
    expected[i] = static_cast<std::int8_t>(std::floor(x[i] + fraction_of(stream, i)));
  expected[0] = 127;
  test::for_each_simd_target([&] {
    CHECK(quantize_stochastic(x, q, {9, 8, 7, 6}, 5) == 1.0f);
    CHECK(q == expected);
  });
}

TEST_CASE("wide values are two digits of 8 bits", "[int8]") {
  std::vector<std::int16_t> wide;
  for (int q = -kWide; q <= kWide; ++q) wide.push_back(static_cast<std::int16_t>(q));
  std::vector<std::int8_t> high(wide.size()), low(wide.size());
  split_wide(wide, high, low);
  std::size_t others = 0;
  for (std::size_t i = 0; i < wide.size(); ++i)
    others += static_cast<int>(kHighDigit) * high[i] + low[i] == wide[i] ? 0u : 1u;
  CHECK(others == 0);
  const auto [least_high, most_high] = std::ranges::minmax(high);
  CHECK((least_high == -64 && most_high == 64));
  const auto [least_low, most_low] = std::ranges::minmax(low);
  CHECK((least_low == -64 && most_low == 63));
  CHECK_THROWS_AS(split_wide(wide, std::span(high).first(1), low), Error);
}

TEST_CASE("sums of channels are exact, also of many pixels at an end of the range", "[int8]") {
  const std::size_t channels = GENERATE(as<std::size_t>(), 1, 8, 43, 72);
  const std::size_t pixels = GENERATE(as<std::size_t>(), 1, 300, 1025);
  CAPTURE(channels, pixels);
  std::vector<std::int8_t> q(pixels * channels);
  std::vector<std::int64_t> expected(channels);
  for (std::size_t i = 0; i < q.size(); ++i) {
    // Some channels have the least value everywhere, some the largest.
    const std::size_t c = i % channels;
    q[i] = static_cast<std::int8_t>(c % 3 == 0   ? -128
                                    : c % 3 == 1 ? 127
                                                 : static_cast<int>(i % 251) - 125);
    expected[c] += q[i];
  }
  test::for_each_simd_target([&] {
    std::vector<std::int64_t> sums(channels, 7);
    channel_sums(q, sums);
    CHECK(sums == expected);
  });
  CHECK_THROWS_AS(channel_sums(q, std::span<std::int64_t>()), Error);
}
