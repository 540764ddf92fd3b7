// SPDX-License-Identifier: Apache-2.0
#include "int8/quantize.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

#include "core/error.hpp"

namespace eqt::int8 {
namespace {

constexpr std::uint32_t kInfinityBits = 0x7F800000u;

[[noreturn]] void fail_not_finite(std::span<const float> x, std::string_view what) {
  const auto bad = std::ranges::find_if(x, [](float v) { return !std::isfinite(v); });
  fail(Kind::diverged,
       "{}: expected finite values to quantize to 8 bits, found {} at index {} of {}; try a lower "
       "optimizer.learning_rate",
       what, *bad, bad - x.begin(), x.size());
}

/// What the largest magnitude, divided by `steps`, makes one step of q.
struct Scale {
  float scale = 1, inverse = 1;
};

Scale scale_of(std::span<const float> x, float steps, std::string_view what) {
  std::uint32_t largest = 0;
  for (const float v : x)
    largest = std::max(largest, std::bit_cast<std::uint32_t>(v) & ~(1u << 31));
  if (largest >= kInfinityBits) fail_not_finite(x, what);
  if (largest == 0) return {};
  const float scale = std::max(std::bit_cast<float>(largest) / steps, 0x1p-126f);
  return {scale, 1 / scale};
}

template <typename T>
float nearest(std::span<const float> x, std::span<T> q, int low, int high, int zero_point,
              std::string_view what) {
  EQT_CHECK(q.size() == x.size(), "{} places for {} values", q.size(), x.size());
  const Scale scale = scale_of(x, static_cast<float>(high), what);
  for (std::size_t i = 0; i < x.size(); ++i) {
    const auto rounded = static_cast<int>(std::nearbyint(x[i] * scale.inverse));
    q[i] = static_cast<T>(std::clamp(rounded, low, high) + zero_point);
  }
  return scale.scale;
}

}  // namespace

float quantize_unsigned(std::span<const float> x, std::span<std::int8_t> q, std::string_view what) {
  return nearest(x, q, 0, 255, kUnsignedZeroPoint, what);
}

float quantize_signed(std::span<const float> x, std::span<std::int8_t> q, std::string_view what) {
  return nearest(x, q, -127, 127, 0, what);
}

float quantize_stochastic(std::span<const float> x, std::span<std::int8_t> q, const RandomKey& key,
                          std::uint32_t block, std::string_view what) {
  EQT_CHECK(q.size() == x.size(), "{} places for {} values", q.size(), x.size());
  const Scale scale = scale_of(x, 127, what);
  const RandomStream stream(key, block);
  for (std::size_t i = 0; i < x.size(); ++i) {
    const std::uint32_t word = stream.bits(static_cast<std::uint32_t>(i / 32 * 16 + i % 16));
    const std::uint32_t bits = i % 32 < 16 ? word & 0xFFFFu : word >> 16;
    const float r = static_cast<float>(2 * bits + 1) * 0x1p-17f;
    const float rounded = std::floor(x[i] * scale.inverse + r);
    q[i] = static_cast<std::int8_t>(std::clamp(static_cast<int>(rounded), -127, 127));
  }
  return scale.scale;
}

float quantize_wide(std::span<const float> x, std::span<std::int16_t> q, std::string_view what) {
  return nearest(x, q, -kWide, kWide, 0, what);
}

void dequantize(std::span<const std::int8_t> q, int zero_point, float scale, std::span<float> x) {
  EQT_CHECK(q.size() == x.size(), "{} values for {} places", q.size(), x.size());
  for (std::size_t i = 0; i < q.size(); ++i) x[i] = static_cast<float>(q[i] - zero_point) * scale;
}

}  // namespace eqt::int8
