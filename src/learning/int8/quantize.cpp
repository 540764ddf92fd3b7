// SPDX-License-Identifier: Apache-2.0
#include "int8/quantize.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "core/error.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "int8/quantize.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "core/random_words-inl.hpp"

#ifndef EQT_INT8_QUANTIZE_ONCE
#define EQT_INT8_QUANTIZE_ONCE
namespace eqt::int8 {
namespace {

/// q = round(x * inverse), cut to [low, high], plus the zero point.
struct Nearest {
  float inverse;
  std::int32_t low, high, zero_point;
};

struct Stochastic {
  float inverse;
  std::uint32_t first, second;  // of the RandomStream
  std::size_t words;            // of it that values before these took
};

constexpr std::size_t kDealt = 16;  // words for twice as many values

}  // namespace
}  // namespace eqt::int8
#endif

HWY_BEFORE_NAMESPACE();
namespace eqt::int8::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

#if HWY_TARGET == HWY_SCALAR
using Floats = hn::ScalableTag<float>;
#else
using Floats = hn::CappedTag<float, 16>;  // random words are dealt to at most 16 lanes
#endif
using Ints = hn::RebindToSigned<Floats>;
using Words = hn::RebindToUnsigned<Floats>;
using FloatVector = hn::Vec<Floats>;
using IntVector = hn::Vec<Ints>;

constexpr std::size_t kMaxLanes = hn::MaxLanes(Floats());

/// The bits of the largest magnitude, NaN above infinity.
std::uint32_t largest_bits(const float* HWY_RESTRICT x, std::size_t count) {
  const Floats df;
  const Ints di;
  const std::size_t lanes = hn::Lanes(df);
  const auto magnitude = hn::Set(di, 0x7FFFFFFF);
  auto largest = hn::Zero(di);
  std::size_t i = 0;
  for (; i + lanes <= count; i += lanes)
    largest = hn::Max(largest, hn::And(magnitude, hn::BitCast(di, hn::LoadU(df, x + i))));
  auto result = static_cast<std::uint32_t>(hn::GetLane(hn::MaxOfLanes(di, largest)));
  for (; i < count; ++i) {
    std::uint32_t bits;
    std::memcpy(&bits, x + i, sizeof bits);
    result = std::max(result, bits & 0x7FFFFFFFu);
  }
  return result;
}

template <typename T>
HWY_INLINE void nearest_vector(const float* from, const Nearest& job, T* to) {
  const Floats df;
  const Ints di;
  const auto rounded = hn::NearestInt(hn::Mul(hn::LoadU(df, from), hn::Set(df, job.inverse)));
  const auto cut = hn::Min(hn::Max(rounded, hn::Set(di, job.low)), hn::Set(di, job.high));
  const hn::Rebind<T, Floats> dt;
  hn::StoreU(hn::DemoteTo(dt, hn::Add(cut, hn::Set(di, job.zero_point))), dt, to);
}

template <typename T>
HWY_INLINE void nearest_all(const float* HWY_RESTRICT x, std::size_t count, const Nearest& job,
                            T* HWY_RESTRICT q) {
  const std::size_t lanes = hn::Lanes(Floats());
  std::size_t i = 0;
  for (; i + lanes <= count; i += lanes) nearest_vector(x + i, job, q + i);
  if (i < count) {
    float in[kMaxLanes] = {};
    T out[kMaxLanes];
    std::memcpy(in, x + i, (count - i) * sizeof(float));
    nearest_vector(in, job, out);
    std::memcpy(q + i, out, (count - i) * sizeof(T));
  }
}

void nearest_bytes(const float* x, std::size_t count, const Nearest& job, std::int8_t* q) {
  nearest_all(x, count, job, q);
}
void nearest_words(const float* x, std::size_t count, const Nearest& job, std::int16_t* q) {
  nearest_all(x, count, job, q);
}

/// floor(x * inverse + r), where r is in the middle of its 2^-16.
HWY_INLINE void stochastic_vector(const float* from, FloatVector inverse, hn::Vec<Words> bits,
                                  std::int8_t* to) {
  const Floats df;
  const Ints di;
  const auto odd = hn::BitCast(di, hn::Or(hn::ShiftLeft<1>(bits), hn::Set(Words(), 1u)));
  const auto r = hn::Mul(hn::ConvertTo(df, odd), hn::Set(df, 0x1p-17f));
  const auto scaled = hn::Mul(hn::LoadU(df, from), inverse);
  const auto rounded = hn::ConvertTo(di, hn::Floor(hn::Add(scaled, r)));
  const auto cut = hn::Min(hn::Max(rounded, hn::Set(di, -127)), hn::Set(di, 127));
  const hn::Rebind<std::int8_t, Floats> dt;
  hn::StoreU(hn::DemoteTo(dt, cut), dt, to);
}

/// 32 values, with the words of `scaled` on; steps `scaled` on.
HWY_INLINE void stochastic_block(const float* from, const Stochastic& job, hn::Vec<Words>& scaled,
                                 std::int8_t* to) {
  const Words dw;
  const std::size_t lanes = hn::Lanes(dw);
  const auto inverse = hn::Set(Floats(), job.inverse);
  const auto next =
      hn::Set(dw, static_cast<std::uint32_t>(lanes) * eqt::HWY_NAMESPACE::kRandomIndexFactor);
  for (std::size_t j = 0; j < kDealt; j += lanes) {
    const auto words = eqt::HWY_NAMESPACE::random_words(dw, scaled, job.second);
    scaled = hn::Add(scaled, next);
    stochastic_vector(from + j, inverse, hn::And(words, hn::Set(dw, 0xFFFFu)), to + j);
    stochastic_vector(from + kDealt + j, inverse, hn::ShiftRight<16>(words), to + kDealt + j);
  }
}

void stochastic(const float* HWY_RESTRICT x, std::size_t count, const Stochastic& job,
                std::int8_t* HWY_RESTRICT q) {
  const Words dw;
  const auto factor = hn::Set(dw, eqt::HWY_NAMESPACE::kRandomIndexFactor);
  const auto index = hn::Iota(dw, static_cast<std::uint32_t>(job.words));
  auto scaled = hn::Add(hn::Mul(index, factor), hn::Set(dw, job.first));
  std::size_t i = 0;
  for (; i + 2 * kDealt <= count; i += 2 * kDealt) stochastic_block(x + i, job, scaled, q + i);
  if (i < count) {
    float in[2 * kDealt] = {};
    std::int8_t out[2 * kDealt];
    std::memcpy(in, x + i, (count - i) * sizeof(float));
    stochastic_block(in, job, scaled, out);
    std::memcpy(q + i, out, count - i);
  }
}

void dequantize_all(const std::int8_t* HWY_RESTRICT q, std::size_t count, int zero_point,
                    float scale, float* HWY_RESTRICT x) {
  const Floats df;
  const Ints di;
  const hn::Rebind<std::int8_t, Floats> dt;
  const std::size_t lanes = hn::Lanes(df);
  std::size_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    const auto wide = hn::Sub(hn::PromoteTo(di, hn::LoadU(dt, q + i)), hn::Set(di, zero_point));
    hn::StoreU(hn::Mul(hn::ConvertTo(df, wide), hn::Set(df, scale)), df, x + i);
  }
  for (; i < count; ++i) x[i] = static_cast<float>(q[i] - zero_point) * scale;
}

}  // namespace
}  // namespace eqt::int8::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace eqt::int8 {
namespace {

HWY_EXPORT(largest_bits);
HWY_EXPORT(nearest_bytes);
HWY_EXPORT(nearest_words);
HWY_EXPORT(stochastic);
HWY_EXPORT(dequantize_all);

constexpr std::uint32_t kInfinityBits = 0x7F800000u;

[[noreturn]] void fail_not_finite(std::span<const float> x, std::string_view what) {
  const auto bad = std::ranges::find_if(x, [](float v) { return !std::isfinite(v); });
  fail(Kind::diverged,
       "{}: expected finite values to quantize to 8 bits, found {} at index {} of {}; try a lower "
       "optimizer.learning_rate",
       what, *bad, bad - x.begin(), x.size());
}

/// One step of q counts `scale`, which is the largest magnitude divided by `steps`.
struct Scale {
  float scale = 1, inverse = 1;
};

Scale scale_of(float largest, float steps) {
  if (largest == 0) return {};
  const float scale = std::max(largest / steps, 0x1p-126f);
  return {scale, 1 / scale};
}

void check_size(std::size_t places, std::size_t values) {
  EQT_CHECK(places == values, "{} places for {} values", places, values);
}

/// The values of a quantizer to nearest.
struct Steps {
  int low, high, zero_point;
};
constexpr Steps kUnsigned = {0, 255, kUnsignedZeroPoint}, kSigned = {-127, 127, 0};
constexpr Steps kShifted = {-16, 239, kShiftedZeroPoint};
constexpr float kLeastShifted = 0.17f;  // the magnitude of GELU's least value

void nearest(float inverse, std::span<const float> x, std::span<std::int8_t> q,
             const Steps& steps) {
  check_size(q.size(), x.size());
  HWY_DYNAMIC_DISPATCH(nearest_bytes)
  (x.data(), x.size(), {inverse, steps.low, steps.high, steps.zero_point}, q.data());
}

float nearest_in_range(float range, std::span<const float> x, std::span<std::int8_t> q,
                       const Steps& steps) {
  const Scale scale = scale_of(range, static_cast<float>(steps.high));
  nearest(scale.inverse, x, q, steps);
  return scale.scale;
}

}  // namespace

float largest_magnitude(std::span<const float> x, std::string_view what) {
  const std::uint32_t largest = HWY_DYNAMIC_DISPATCH(largest_bits)(x.data(), x.size());
  if (largest >= kInfinityBits) fail_not_finite(x, what);
  return std::bit_cast<float>(largest);
}

float quantize_unsigned(float range, std::span<const float> x, std::span<std::int8_t> q) {
  return nearest_in_range(range, x, q, kUnsigned);
}

float quantize_shifted(float range, std::span<const float> x, std::span<std::int8_t> q) {
  constexpr float kLeastRange =
      kLeastShifted * static_cast<float>(kShifted.high) / static_cast<float>(-kShifted.low);
  return nearest_in_range(std::max(range, kLeastRange), x, q, kShifted);
}

float quantize_signed(float range, std::span<const float> x, std::span<std::int8_t> q) {
  return nearest_in_range(range, x, q, kSigned);
}

void quantize_unsigned_again(float scale, std::span<const float> x, std::span<std::int8_t> q) {
  nearest(1 / scale, x, q, kUnsigned);
}

void quantize_shifted_again(float scale, std::span<const float> x, std::span<std::int8_t> q) {
  nearest(1 / scale, x, q, kShifted);
}

void quantize_signed_again(float scale, std::span<const float> x, std::span<std::int8_t> q) {
  nearest(1 / scale, x, q, kSigned);
}

float quantize_stochastic(float range, std::span<const float> x, std::span<std::int8_t> q,
                          const RandomKey& key, std::uint32_t block, std::size_t first) {
  check_size(q.size(), x.size());
  EQT_CHECK(first % (2 * kDealt) == 0, "values from {} on", first);
  const Scale scale = scale_of(range, 127);
  const RandomStream stream(key, block);
  HWY_DYNAMIC_DISPATCH(stochastic)
  (x.data(), x.size(), {scale.inverse, stream.first(), stream.second(), first / 2}, q.data());
  return scale.scale;
}

float quantize_unsigned(std::span<const float> x, std::span<std::int8_t> q, std::string_view what) {
  return quantize_unsigned(largest_magnitude(x, what), x, q);
}

float quantize_signed(std::span<const float> x, std::span<std::int8_t> q, std::string_view what) {
  return quantize_signed(largest_magnitude(x, what), x, q);
}

float quantize_stochastic(std::span<const float> x, std::span<std::int8_t> q, const RandomKey& key,
                          std::uint32_t block, std::string_view what) {
  return quantize_stochastic(largest_magnitude(x, what), x, q, key, block);
}

float quantize_wide(float range, std::span<const float> x, std::span<std::int16_t> q) {
  check_size(q.size(), x.size());
  const Scale scale = scale_of(range, static_cast<float>(kWide));
  HWY_DYNAMIC_DISPATCH(nearest_words)
  (x.data(), x.size(), {scale.inverse, -kWide, kWide, 0}, q.data());
  return scale.scale;
}

float quantize_wide(std::span<const float> x, std::span<std::int16_t> q, std::string_view what) {
  return quantize_wide(largest_magnitude(x, what), x, q);
}

void split_wide(std::span<const std::int16_t> q, std::span<std::int8_t> high,
                std::span<std::int8_t> low) {
  check_size(high.size(), q.size());
  check_size(low.size(), q.size());
  for (std::size_t i = 0; i < q.size(); ++i) {
    const int upper = (q[i] + 64) >> 7;
    high[i] = static_cast<std::int8_t>(upper);
    low[i] = static_cast<std::int8_t>(q[i] - 128 * upper);
  }
}

void dequantize(std::span<const std::int8_t> q, int zero_point, float scale, std::span<float> x) {
  check_size(x.size(), q.size());
  HWY_DYNAMIC_DISPATCH(dequantize_all)(q.data(), q.size(), zero_point, scale, x.data());
}

}  // namespace eqt::int8
#endif  // HWY_ONCE
