// SPDX-License-Identifier: Apache-2.0
#include "codec/lossless/float_planes.hpp"

#include <algorithm>
#include <bit>

#include "codec/bytes.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "codec/lossless/float_planes.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "codec/vectors-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace eqt::codec::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
using I16 = hn::ScalableTag<std::int16_t>;
using BytesOf16 = hn::Rebind<std::uint8_t, I16>;
using BytesOf32 = hn::Rebind<std::uint8_t, I32>;
using WordsOf32 = hn::Rebind<std::uint16_t, I32>;
using U8 = hn::ScalableTag<std::uint8_t>;

HWY_INLINE std::byte* as_bytes(std::uint8_t* bytes) { return reinterpret_cast<std::byte*>(bytes); }
HWY_INLINE const std::byte* as_bytes(const std::uint8_t* bytes) {
  return reinterpret_cast<const std::byte*>(bytes);
}

void SplitBfloats(const std::byte* HWY_RESTRICT bfloats, std::size_t count,
                  std::uint8_t* HWY_RESTRICT exponents, std::byte* HWY_RESTRICT upper) {
  const I16 d;
  const BytesOf16 d8;
  const std::size_t lanes = hn::Lanes(d);
  const auto byte = hn::Set(d, 0xFF), one = hn::Set(d, 1);
  std::size_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    const auto bits = load_bytes(d, bfloats + 2 * i);
    const auto exponent = hn::And(hn::ShiftRight<7>(bits), byte);
    const auto sign = hn::And(hn::ShiftRight<15>(bits), one);
    const auto rest = hn::And(hn::Or(hn::ShiftLeft<1>(bits), sign), byte);
    store_bytes(hn::DemoteTo(d8, exponent), d8, as_bytes(exponents + i));
    store_bytes(hn::DemoteTo(d8, rest), d8, upper + i);
  }
  for (; i < count; ++i) {
    const auto rotated = std::rotl(load<std::uint16_t>(bfloats + 2 * i), 1);
    exponents[i] = static_cast<std::uint8_t>(rotated >> 8);
    upper[i] = static_cast<std::byte>(rotated);
  }
}

void SplitFloats(const float* HWY_RESTRICT values, std::size_t count,
                 std::uint8_t* HWY_RESTRICT exponents, std::byte* HWY_RESTRICT upper,
                 std::byte* HWY_RESTRICT lower) {
  const I32 d;
  const BytesOf32 d8;
  const WordsOf32 d16;
  const std::size_t lanes = hn::Lanes(d);
  const auto byte = hn::Set(d, 0xFF), word = hn::Set(d, 0xFFFF), one = hn::Set(d, 1);
  std::size_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    const auto bits = hn::BitCast(d, hn::LoadU(F32(), values + i));
    const auto sign = hn::And(hn::ShiftRight<31>(bits), one);
    const auto exponent = hn::And(hn::ShiftRight<23>(bits), byte);
    const auto high = hn::And(hn::ShiftRight<15>(bits), byte);
    const auto low = hn::And(hn::Or(hn::ShiftLeft<1>(bits), sign), word);
    store_bytes(hn::DemoteTo(d8, exponent), d8, as_bytes(exponents + i));
    store_bytes(hn::DemoteTo(d8, high), d8, upper + i);
    store_bytes(hn::DemoteTo(d16, low), d16, lower + 2 * i);
  }
  for (; i < count; ++i) {
    const auto rotated = std::rotl(std::bit_cast<std::uint32_t>(values[i]), 1);
    exponents[i] = static_cast<std::uint8_t>(rotated >> 24);
    upper[i] = static_cast<std::byte>(rotated >> 16);
    store(lower + 2 * i, static_cast<std::uint16_t>(rotated));
  }
}

/// sum += scale * number, with a number's bits before it was rotated left by one.
HWY_INLINE void add_vector(hn::Vec<I32> bits, hn::Vec<F32> scale, float* sum) {
  const F32 df;
  const auto value = hn::BitCast(df, bits);
  hn::StoreU(hn::Add(hn::LoadU(df, sum), hn::Mul(scale, value)), df, sum);
}

void AddBfloatPlanes(const std::uint8_t* HWY_RESTRICT exponents,
                     const std::byte* HWY_RESTRICT upper, float scale, float* HWY_RESTRICT sum,
                     std::size_t count) {
  const I32 d;
  const BytesOf32 d8;
  const std::size_t lanes = hn::Lanes(d);
  const auto factor = hn::Set(F32(), scale);
  const auto mantissa = hn::Set(d, 0x7F0000);
  std::size_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    const auto exponent = hn::PromoteTo(d, load_bytes(d8, as_bytes(exponents + i)));
    const auto rest = hn::PromoteTo(d, load_bytes(d8, upper + i));
    const auto magnitude =
        hn::Or(hn::ShiftLeft<23>(exponent), hn::And(hn::ShiftLeft<15>(rest), mantissa));
    add_vector(hn::Or(magnitude, hn::ShiftLeft<31>(rest)), factor, sum + i);
  }
  for (; i < count; ++i) {
    const auto rotated =
        static_cast<std::uint16_t>(exponents[i] << 8 | std::to_integer<unsigned>(upper[i]));
    sum[i] += scale * std::bit_cast<float>(std::uint32_t{std::rotr(rotated, 1)} << 16);
  }
}

void AddFloatPlanes(const std::uint8_t* HWY_RESTRICT exponents, const std::byte* HWY_RESTRICT upper,
                    const std::byte* HWY_RESTRICT lower, float scale, float* HWY_RESTRICT sum,
                    std::size_t count) {
  const I32 d;
  const BytesOf32 d8;
  const WordsOf32 d16;
  const std::size_t lanes = hn::Lanes(d);
  const auto factor = hn::Set(F32(), scale);
  const auto low_mantissa = hn::Set(d, 0x7FFF);
  std::size_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    const auto exponent = hn::PromoteTo(d, load_bytes(d8, as_bytes(exponents + i)));
    const auto high = hn::PromoteTo(d, load_bytes(d8, upper + i));
    const auto low = hn::PromoteTo(d, load_bytes(d16, lower + 2 * i));
    const auto mantissa =
        hn::Or(hn::ShiftLeft<15>(high), hn::And(hn::ShiftRight<1>(low), low_mantissa));
    const auto magnitude = hn::Or(hn::ShiftLeft<23>(exponent), mantissa);
    add_vector(hn::Or(magnitude, hn::ShiftLeft<31>(low)), factor, sum + i);
  }
  for (; i < count; ++i) {
    const std::uint32_t rotated = std::uint32_t{exponents[i]} << 24 |
                                  std::to_integer<std::uint32_t>(upper[i]) << 16 |
                                  load<std::uint16_t>(lower + 2 * i);
    sum[i] += scale * std::bit_cast<float>(std::rotr(rotated, 1));
  }
}

void CodesOfExponents(const ExponentCodes& code, const std::uint8_t* HWY_RESTRICT exponents,
                      LevelCode* HWY_RESTRICT codes, std::size_t count) {
  const U8 d;
  const std::size_t lanes = hn::Lanes(d);
  const auto others = static_cast<std::uint8_t>(code.escape - code.first);
  const auto top = hn::Set(d, code.top), first = hn::Set(d, code.first);
  const auto most = hn::Set(d, others);
  std::size_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    // An exponent above the top wraps round to a large difference.
    const auto below = hn::Sub(top, hn::LoadU(d, exponents + i));
    hn::StoreU(hn::Add(hn::Min(below, most), first), d, codes + i);
  }
  for (; i < count; ++i) {
    const auto below = static_cast<std::uint8_t>(code.top - exponents[i]);
    codes[i] = static_cast<LevelCode>(std::min(below, others) + code.first);
  }
}

void ExponentsOfCodes(const ExponentCodes& code, const LevelCode* HWY_RESTRICT codes,
                      std::uint8_t* HWY_RESTRICT exponents, std::size_t count) {
  const U8 d;
  const std::size_t lanes = hn::Lanes(d);
  const auto sum = static_cast<std::uint8_t>(code.top + code.first);
  const auto of_zero = hn::Set(d, sum);
  std::size_t i = 0;
  for (; i + lanes <= count; i += lanes)
    hn::StoreU(hn::Sub(of_zero, hn::LoadU(d, codes + i)), d, exponents + i);
  for (; i < count; ++i) exponents[i] = static_cast<std::uint8_t>(sum - codes[i]);
}

}  // namespace
}  // namespace eqt::codec::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace eqt::codec {
namespace {

// An exponent that is rarer than one value in this many is an escape. A code of its own takes a
// 256-th of the model from all values; an escape costs its value 8 bits more than the code does.
constexpr std::uint64_t kRare = 1024;

}  // namespace

ExponentCodes choose_codes(const ExponentCounts& counts, std::size_t values, std::uint8_t first) {
  const std::size_t most = kExponentCodes - 1 - first;  // one code is the escape
  std::size_t top = 0, width = 0;
  std::uint64_t sum = 0, best = 1;
  for (std::size_t end = 0; end <= kMaxExponent; ++end) {
    sum += counts[end];
    if (end >= most) sum -= counts[end - most];
    if (sum < best) continue;
    best = sum;
    top = end;
    width = std::min(most, end + 1);
  }
  const auto is_rare = [&](std::size_t exponent) { return counts[exponent] * kRare < values; };
  for (; width > 0 && is_rare(top); --width) top -= width > 1 ? 1 : top;
  while (width > 0 && is_rare(top + 1 - width)) --width;
  return {.top = static_cast<std::uint8_t>(top),
          .first = first,
          .escape = static_cast<std::uint8_t>(first + width)};
}

IndexCounts code_counts(const ExponentCounts& counts, const ExponentCodes& code,
                        std::size_t zeros) {
  IndexCounts result{};
  for (const std::uint32_t count : counts) result[code.escape] += count;
  for (std::size_t k = 0; k + code.first < code.escape; ++k) {
    result[code.first + k] = counts[code.top - k];
    result[code.escape] -= counts[code.top - k];
  }
  if (code.first > 0) result[0] = zeros;
  return result;
}

HWY_EXPORT(SplitBfloats);
HWY_EXPORT(SplitFloats);
HWY_EXPORT(AddBfloatPlanes);
HWY_EXPORT(AddFloatPlanes);
HWY_EXPORT(CodesOfExponents);
HWY_EXPORT(ExponentsOfCodes);

void split_bfloats(std::span<const std::byte> bfloats, std::uint8_t* exponents, std::byte* upper) {
  HWY_DYNAMIC_DISPATCH(SplitBfloats)(bfloats.data(), bfloats.size() / 2, exponents, upper);
}

void split_floats(std::span<const float> values, std::uint8_t* exponents, std::byte* upper,
                  std::byte* lower) {
  HWY_DYNAMIC_DISPATCH(SplitFloats)(values.data(), values.size(), exponents, upper, lower);
}

void add_bfloat_planes(const std::uint8_t* exponents, const std::byte* upper, float scale,
                       std::span<float> sum) {
  HWY_DYNAMIC_DISPATCH(AddBfloatPlanes)(exponents, upper, scale, sum.data(), sum.size());
}

void add_float_planes(const std::uint8_t* exponents, const std::byte* upper, const std::byte* lower,
                      float scale, std::span<float> sum) {
  HWY_DYNAMIC_DISPATCH(AddFloatPlanes)(exponents, upper, lower, scale, sum.data(), sum.size());
}

void codes_of_exponents(const ExponentCodes& code, std::span<const std::uint8_t> exponents,
                        std::span<LevelCode> codes) {
  HWY_DYNAMIC_DISPATCH(CodesOfExponents)(code, exponents.data(), codes.data(), codes.size());
}

void exponents_of_codes(const ExponentCodes& code, std::span<const LevelCode> codes,
                        std::span<std::uint8_t> exponents) {
  HWY_DYNAMIC_DISPATCH(ExponentsOfCodes)(code, codes.data(), exponents.data(), codes.size());
}

}  // namespace eqt::codec
#endif  // HWY_ONCE
