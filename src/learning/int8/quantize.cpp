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

/// q = round(x * inverse) + zero_point, cut to [low, 127].
struct Nearest {
  float inverse;
  int low, zero_point;
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

/// x * inverse, below 2^15 where a range leaves values out: larger ones are cut anyway, and their
/// conversion to integers would be each instruction set's own.
HWY_INLINE FloatVector scaled(const float* from, FloatVector inverse) {
  const Floats df;
  return hn::Min(hn::Mul(hn::LoadU(df, from), inverse), hn::Set(df, 0x1p15f));
}

// Conversions of values below 2^31. Instruction sets agree on those below -2^31, too.
#if HWY_TARGET <= HWY_AVX3
HWY_INLINE IntVector to_nearest(FloatVector x) { return IntVector{_mm512_cvtps_epi32(x.raw)}; }
HWY_INLINE IntVector to_floor(FloatVector x) {
  return IntVector{_mm512_cvt_roundps_epi32(x.raw, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC)};
}
#else
HWY_INLINE IntVector to_nearest(FloatVector x) { return hn::NearestInt(x); }
HWY_INLINE IntVector to_floor(FloatVector x) { return hn::ConvertTo(Ints(), hn::Floor(x)); }
#endif

/// Stores v + zero_point, cut to [low, 127], of four vectors in their order.
/// @pre |zero_point| <= 128
HWY_INLINE void store_four(const IntVector* v, int zero_point, int low, std::int8_t* to) {
#if HWY_TARGET <= HWY_AVX3
  const __m512i zero = _mm512_set1_epi16(static_cast<std::int16_t>(zero_point));
  const __m512i first = _mm512_adds_epi16(_mm512_packs_epi32(v[0].raw, v[1].raw), zero);
  const __m512i second = _mm512_adds_epi16(_mm512_packs_epi32(v[2].raw, v[3].raw), zero);
  const __m512i bytes = _mm512_max_epi8(_mm512_packs_epi16(first, second),
                                        _mm512_set1_epi8(static_cast<std::int8_t>(low)));
  // Packing has put a quarter of each vector into each block of 128 bits.
  const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
  _mm512_storeu_si512(to, _mm512_permutexvar_epi32(order, bytes));
#elif HWY_TARGET == HWY_AVX2
  const __m256i zero = _mm256_set1_epi16(static_cast<std::int16_t>(zero_point));
  const __m256i first = _mm256_adds_epi16(_mm256_packs_epi32(v[0].raw, v[1].raw), zero);
  const __m256i second = _mm256_adds_epi16(_mm256_packs_epi32(v[2].raw, v[3].raw), zero);
  const __m256i bytes = _mm256_max_epi8(_mm256_packs_epi16(first, second),
                                        _mm256_set1_epi8(static_cast<std::int8_t>(low)));
  const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), _mm256_permutevar8x32_epi32(bytes, order));
#else
  const Ints di;
  const hn::Rebind<std::int8_t, Floats> dt;
  for (std::size_t k = 0; k < 4; ++k) {
    const auto cut = hn::Max(v[k], hn::Set(di, low - zero_point));
    hn::StoreU(hn::DemoteTo(dt, hn::Add(cut, hn::Set(di, zero_point))), dt, to + k * hn::Lanes(di));
  }
#endif
}

void nearest_bytes(const float* HWY_RESTRICT x, std::size_t count, const Nearest& job,
                   std::int8_t* HWY_RESTRICT q) {
  const std::size_t lanes = hn::Lanes(Floats());
  const auto inverse = hn::Set(Floats(), job.inverse);
  const auto four = [&](const float* from, std::int8_t* to) HWY_ATTR {
    IntVector v[4];
    for (std::size_t k = 0; k < 4; ++k) v[k] = to_nearest(scaled(from + k * lanes, inverse));
    store_four(v, job.zero_point, job.low, to);
  };
  std::size_t i = 0;
  for (; i + 4 * lanes <= count; i += 4 * lanes) four(x + i, q + i);
  if (i < count) {
    float in[4 * kMaxLanes] = {};
    std::int8_t out[4 * kMaxLanes];
    std::memcpy(in, x + i, (count - i) * sizeof(float));
    four(in, out);
    std::memcpy(q + i, out, count - i);
  }
}

/// q = round(x * inverse), cut to [-most, most].
void nearest_words(const float* HWY_RESTRICT x, std::size_t count, float factor, std::int32_t most,
                   std::int16_t* HWY_RESTRICT q) {
  const Ints di;
  const hn::Rebind<std::int16_t, Floats> dt;
  const std::size_t lanes = hn::Lanes(Floats());
  const auto inverse = hn::Set(Floats(), factor);
  const auto vector = [&](const float* from, std::int16_t* to) HWY_ATTR {
    const auto rounded = to_nearest(scaled(from, inverse));
    const auto cut = hn::Min(hn::Max(rounded, hn::Set(di, -most)), hn::Set(di, most));
    hn::StoreU(hn::DemoteTo(dt, cut), dt, to);
  };
  std::size_t i = 0;
  for (; i + lanes <= count; i += lanes) vector(x + i, q + i);
  if (i < count) {
    float in[kMaxLanes] = {};
    std::int16_t out[kMaxLanes];
    std::memcpy(in, x + i, (count - i) * sizeof(float));
    vector(in, out);
    std::memcpy(q + i, out, (count - i) * sizeof(std::int16_t));
  }
}

/// floor(x * inverse + r), where r = (2 bits + 1) / 2^17. `fraction` has the 16 bits in its bits 7
/// to 22.
HWY_INLINE IntVector stochastic_vector(const float* from, FloatVector inverse,
                                       hn::Vec<Words> fraction) {
  const Floats df;
  const Words dw;
  // A float in [1, 2) with r as its fraction; r is exact.
  const auto mantissa =
      hn::Or(hn::And(fraction, hn::Set(dw, 0x007FFF80u)), hn::Set(dw, 0x3F800040u));
  const auto r = hn::Sub(hn::BitCast(df, mantissa), hn::Set(df, 1.0f));
  return to_floor(hn::Add(scaled(from, inverse), r));
}

// Values that are rounded at a time: whole blocks of random words, and four vectors.
constexpr std::size_t kRounded = std::max(2 * kDealt, 4 * kMaxLanes);

/// kRounded values, with the words of `words` on; steps `words` on.
HWY_INLINE void stochastic_block(const float* from, const Stochastic& job, hn::Vec<Words>& words,
                                 std::int8_t* to) {
  const Words dw;
  const std::size_t lanes = hn::Lanes(dw);
  const auto inverse = hn::Set(Floats(), job.inverse);
  const auto next =
      hn::Set(dw, static_cast<std::uint32_t>(lanes) * eqt::HWY_NAMESPACE::kRandomIndexFactor);
  IntVector v[kRounded / kMaxLanes];
  for (std::size_t block = 0; block < kRounded; block += 2 * kDealt) {
    for (std::size_t j = 0; j < kDealt; j += lanes) {
      const auto bits = eqt::HWY_NAMESPACE::random_words(dw, words, job.second);
      words = hn::Add(words, next);
      const std::size_t low = block + j, high = low + kDealt;
      v[low / lanes] = stochastic_vector(from + low, inverse, hn::ShiftLeft<7>(bits));
      v[high / lanes] = stochastic_vector(from + high, inverse, hn::ShiftRight<9>(bits));
    }
  }
  for (std::size_t k = 0; k < kRounded / kMaxLanes; k += 4)
    store_four(v + k, 0, -127, to + k * lanes);
}

void stochastic(const float* HWY_RESTRICT x, std::size_t count, const Stochastic& job,
                std::int8_t* HWY_RESTRICT q) {
  const Words dw;
  const auto factor = hn::Set(dw, eqt::HWY_NAMESPACE::kRandomIndexFactor);
  const auto index = hn::Iota(dw, static_cast<std::uint32_t>(job.words));
  auto words = hn::Add(hn::Mul(index, factor), hn::Set(dw, job.first));
  std::size_t i = 0;
  for (; i + kRounded <= count; i += kRounded) stochastic_block(x + i, job, words, q + i);
  if (i < count) {
    float in[kRounded] = {};
    std::int8_t out[kRounded];
    std::memcpy(in, x + i, (count - i) * sizeof(float));
    stochastic_block(in, job, words, out);
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

/// Adds `pixels` pixels of kCount channels to their sums, in 16 bits for 256 pixels.
template <std::size_t kCount>
HWY_INLINE void add_pixels(const std::int8_t* HWY_RESTRICT q, std::size_t channels,
                           std::size_t pixels, std::int64_t* HWY_RESTRICT sums) {
  constexpr std::size_t kShort = 256;  // 256 * 128 = 2^15
  for (std::size_t first = 0; first < pixels; first += kShort) {
    const std::size_t end = std::min(pixels, first + kShort);
    std::int16_t part[kCount] = {};
    for (std::size_t p = first; p < end; ++p)
      for (std::size_t c = 0; c < kCount; ++c)
        part[c] = static_cast<std::int16_t>(part[c] + q[p * channels + c]);
    for (std::size_t c = 0; c < kCount; ++c) sums[c] += part[c];
  }
}

void all_channel_sums(const std::int8_t* q, std::size_t pixels, std::size_t channels,
                      std::int64_t* sums) {
  std::fill_n(sums, channels, 0);
  std::size_t c = 0;
  for (; c + 32 <= channels; c += 32) add_pixels<32>(q + c, channels, pixels, sums + c);
  for (; c + 8 <= channels; c += 8) add_pixels<8>(q + c, channels, pixels, sums + c);
  for (; c < channels; ++c) add_pixels<1>(q + c, channels, pixels, sums + c);
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
HWY_EXPORT(all_channel_sums);

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

/// The values of a quantizer to nearest, which end at 127 with the zero point in them.
struct Steps {
  int low, high, zero_point;
  int low_byte() const { return low + zero_point; }
};
constexpr Steps kUnsigned = {0, 255, kUnsignedZeroPoint}, kSigned = {-127, 127, 0};
constexpr Steps kShifted = {-16, 239, kShiftedZeroPoint};
static_assert(kUnsigned.high + kUnsigned.zero_point == 127 &&
              kShifted.high + kShifted.zero_point == 127);
constexpr float kLeastShifted = 0.17f;  // the magnitude of GELU's least value

void nearest(float inverse, std::span<const float> x, std::span<std::int8_t> q,
             const Steps& steps) {
  check_size(q.size(), x.size());
  HWY_DYNAMIC_DISPATCH(nearest_bytes)
  (x.data(), x.size(), {inverse, steps.low_byte(), steps.zero_point}, q.data());
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
  (x.data(), x.size(), scale.inverse, kWide, q.data());
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

void channel_sums(std::span<const std::int8_t> q, std::span<std::int64_t> sums) {
  EQT_CHECK(!sums.empty() && q.size() % sums.size() == 0, "{} values of {} channels", q.size(),
            sums.size());
  HWY_DYNAMIC_DISPATCH(all_channel_sums)
  (q.data(), q.size() / sums.size(), sums.size(), sums.data());
}

}  // namespace eqt::int8
#endif  // HWY_ONCE
