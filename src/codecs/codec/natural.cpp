// SPDX-License-Identifier: Apache-2.0
// Natural compression: every value is rounded at random, without bias, to one of the two nearest
// powers of two.
//
// Source   S. Horvath et al., MSML 2022, arXiv:1905.10988, definition 1: C_nat
// Symbols  n values x; 2^e <= |x| < 2^(e+1)
// Method   2^(e+1) with probability (|x| - 2^e) / 2^e, else 2^e, with x's sign: a random 23-bit
//          integer is added to the bits of |x| and the fraction is cut off
// Payload  n exponent bytes (the exponent field of a float32), then n sign bits
// Size     n + ceil(n / 8) bytes: 9 bits a value
// Error    E[out] = in;  E|out - in|^2 = sum (2^(e+1) - |x|)(|x| - 2^e) <= |in|^2 / 8 where no x is
//          subnormal
// Differs from the paper, which has no limits of the range: a subnormal x becomes 0 or 2^-126,
//          unbiased as well, with variance |x| (2^-126 - |x|); |x| above 2^127 would have to be
//          rounded to infinity with some probability and is Error{diverged} instead

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "codec/bytes.hpp"
#include "codec/catalogue.hpp"
#include "codec/finite.hpp"
#include "core/error.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "codec/natural.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "codec/bit_plane-inl.hpp"
#include "core/random_words-inl.hpp"

#ifndef EQT_CODEC_NATURAL_ONCE
#define EQT_CODEC_NATURAL_ONCE
namespace eqt::codec {
namespace {

constexpr std::size_t kGroup = 32;     // values; a whole number of vectors and of bytes of signs
constexpr std::size_t kBlock = 4096;   // values whose signs are collected outside the payload
constexpr std::size_t kStrata = 1024;  // values whose strata are looked up together

}  // namespace
}  // namespace eqt::codec
#endif

HWY_BEFORE_NAMESPACE();
namespace eqt::codec::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
using eqt::HWY_NAMESPACE::complement_if_negative;
using eqt::HWY_NAMESPACE::kRandomIndexFactor;
using eqt::HWY_NAMESPACE::random_products;
using eqt::HWY_NAMESPACE::random_words;
using eqt::HWY_NAMESPACE::stratified_words;

using Floats = hn::CappedTag<float, kGroup>;
using Ints = hn::RebindToSigned<Floats>;
using Words = hn::RebindToUnsigned<Floats>;
using Bytes = hn::Rebind<std::uint8_t, Floats>;
constexpr std::size_t kLanes = hn::MaxLanes(Floats());

template <bool kStratified>
std::uint32_t encode_groups_with(const float* HWY_RESTRICT values, std::size_t groups,
                                 const RandomStream& stream, std::uint32_t index,
                                 std::uint8_t* HWY_RESTRICT exponents,
                                 std::uint8_t* HWY_RESTRICT signs) {
  const Ints di;
  const Words du;
  auto scaled = hn::Add(hn::Mul(hn::Iota(du, index), hn::Set(du, kRandomIndexFactor)),
                        hn::Set(du, stream.first()));
  // These are copies, because the bytes that are stored might alias anything.
  const std::uint32_t second = stream.second(), multiplier = stream.multiplier();
  const std::uint32_t factor = kStratified ? stream.strata()->factor() : 0;
  std::uint32_t strata[kStratified ? kStrata : 1];
  const auto next = hn::Set(du, static_cast<std::uint32_t>(kLanes) * kRandomIndexFactor);
  auto largest = hn::Zero(di);
  constexpr std::size_t kStep = mask_group(Floats());
  const std::size_t count = groups * kGroup;
  for (std::size_t i = 0; i < count; i += kStep) {
    if constexpr (kStratified) {
      if (i % kStrata == 0)
        stream.copy_strata(index + static_cast<std::uint32_t>(i),
                           {strata, std::min(kStrata, count - i)});
    }
    const auto round_vector = [&](std::size_t j) HWY_ATTR {
      const auto bits = hn::BitCast(du, hn::LoadU(Floats(), values + i + j));
      const auto magnitude = hn::And(bits, hn::Set(du, 0x7FFFFFFFu));
      largest = hn::Max(largest, hn::BitCast(di, magnitude));
      auto word = hn::Zero(du);
      if constexpr (kStratified) {
        const auto products = random_products(du, scaled, second, multiplier);
        const auto bases = hn::LoadU(du, strata + i % kStrata + j);
        word = complement_if_negative(du, stratified_words(du, products, bases, factor), bits);
      } else {
        word = random_words(du, scaled, second);
      }
      const auto random = hn::ShiftRight<9>(word);
      scaled = hn::Add(scaled, next);
      const auto exponent = hn::ShiftRight<23>(hn::Add(magnitude, random));
      hn::StoreU(hn::TruncateTo(Bytes(), exponent), Bytes(), exponents + i + j);
      const auto nonzero = hn::Ne(exponent, hn::Zero(du));
      return hn::Lt(hn::BitCast(di, hn::IfThenElseZero(nonzero, bits)), hn::Zero(di));
    };
    store_masks(di, round_vector, signs + i / 8);
  }
  return static_cast<std::uint32_t>(hn::GetLane(hn::MaxOfLanes(di, largest)));
}

/// Encodes groups of values whose counters do not cross a multiple of 2^32. `index` is the low half
/// of the first one's.
/// @pre 4 * groups + 8 bytes may be written at `signs`
/// @return the largest |x| as bits
std::uint32_t encode_groups(const float* values, std::size_t groups, const RandomStream& stream,
                            std::uint32_t index, std::uint8_t* exponents, std::uint8_t* signs) {
  return stream.strata() != nullptr
             ? encode_groups_with<true>(values, groups, stream, index, exponents, signs)
             : encode_groups_with<false>(values, groups, stream, index, exponents, signs);
}

/// sum += scale * values of whole groups.
/// @return the largest exponent
std::uint32_t add_groups(const std::uint8_t* HWY_RESTRICT exponents,
                         const std::byte* HWY_RESTRICT signs, std::size_t groups, float scale,
                         float* HWY_RESTRICT sum) {
  const Floats df;
  const Ints di;
  const auto factor = hn::Set(df, scale);
  const auto minus = hn::Neg(factor);
  const BitMask<Floats> mask_of_bits;
  auto largest = hn::Zero(di);
  for (std::size_t g = 0; g < groups; ++g) {
    const auto word = load<std::uint32_t>(signs + 4 * g);
    for (std::size_t j = 0; j < kGroup; j += kLanes) {
      const std::size_t i = g * kGroup + j;
      const auto exponent = hn::PromoteTo(di, hn::LoadU(Bytes(), exponents + i));
      largest = hn::Max(largest, exponent);
      const auto power = hn::BitCast(df, hn::ShiftLeft<23>(exponent));
      const auto value = hn::Mul(hn::IfThenElse(mask_of_bits(word >> j), minus, factor), power);
      hn::StoreU(hn::Add(hn::LoadU(df, sum + i), value), df, sum + i);
    }
  }
  return static_cast<std::uint32_t>(hn::GetLane(hn::MaxOfLanes(di, largest)));
}

}  // namespace
}  // namespace eqt::codec::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace eqt::codec {
namespace {

HWY_EXPORT(encode_groups);
HWY_EXPORT(add_groups);

constexpr std::uint32_t kLargestBits = 0x7F000000;  // 2^127: nothing below is rounded to infinity
constexpr std::uint32_t kExponentOfInfinity = 255;

std::size_t payload_bytes(std::size_t count) { return count + count / 8 + (count % 8 != 0); }

/// One value at a time: where a counter crosses a multiple of 2^32.
std::uint32_t encode_across(std::span<const float> values, const RandomKey& key,
                            const Strata* strata, std::uint64_t first_index,
                            std::uint8_t* exponents, std::uint8_t* signs) {
  std::uint32_t largest = 0;
  std::memset(signs, 0, (values.size() + 7) / 8);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::uint64_t index = first_index + i;
    const RandomStream stream(key, static_cast<std::uint32_t>(index >> 32), strata);
    const std::uint32_t magnitude = std::bit_cast<std::uint32_t>(values[i]) & 0x7FFFFFFFu;
    largest = std::max(largest, magnitude);
    const std::uint32_t random =
        stream.rounding_bits(static_cast<std::uint32_t>(index), std::signbit(values[i])) >> 9;
    exponents[i] = static_cast<std::uint8_t>((magnitude + random) >> 23);
    const bool negative = exponents[i] != 0 && std::signbit(values[i]);
    signs[i / 8] |= static_cast<std::uint8_t>(unsigned{negative} << (i % 8));
  }
  return largest;
}

/// @return the largest |x| as bits
std::uint32_t encode_block(std::span<const float> values, const RandomKey& key,
                           const Strata* strata, std::uint64_t first_index, std::uint8_t* exponents,
                           std::uint8_t* signs) {
  const auto block = static_cast<std::uint32_t>(first_index >> 32);
  if ((first_index + values.size() - 1) >> 32 != block) {
    return encode_across(values, key, strata, first_index, exponents, signs);
  }
  const RandomStream stream(key, block, strata);
  const auto index = static_cast<std::uint32_t>(first_index);
  const auto run = HWY_DYNAMIC_DISPATCH(encode_groups);
  const std::size_t groups = values.size() / kGroup;
  const std::size_t whole = groups * kGroup;
  std::uint32_t largest = run(values.data(), groups, stream, index, exponents, signs);
  if (whole < values.size()) {
    const std::size_t rest = values.size() - whole;
    float last[kGroup] = {};
    std::uint8_t last_exponents[kGroup];
    std::uint8_t last_signs[kGroup / 8 + 8];
    std::memcpy(last, values.data() + whole, rest * sizeof(float));
    const auto last_index = index + static_cast<std::uint32_t>(whole);
    largest = std::max(largest, run(last, 1, stream, last_index, last_exponents, last_signs));
    std::memcpy(exponents + whole, last_exponents, rest);
    std::memcpy(signs + whole / 8, last_signs, (rest + 7) / 8);
  }
  return largest;
}

[[noreturn]] void fail_too_large(std::span<const float> values) {
  require_finite("natural", values);
  const auto found =
      std::find_if(values.begin(), values.end(), [](float v) { return std::abs(v) > 0x1p127f; });
  fail(Kind::diverged,
       "compressor natural: expected magnitudes up to 2^127, which no rounding makes infinite, "
       "found {} at index {} of {}; training has diverged, try a lower optimizer.learning_rate",
       *found, found - values.begin(), values.size());
}

class Natural final : public Compressor {
 public:
  explicit Natural(const CompressorOptions& options) : rounding_(options.rounding) {}

  CodecId id() const noexcept override { return CodecId::natural; }
  std::uint8_t format_version() const noexcept override { return 1; }
  Properties properties() const noexcept override { return {.unbiased = true, .random = true}; }
  /// The bound holds for normal numbers; subnormal ones are rounded to 0 or 2^-126.
  std::optional<double> variance_bound(std::size_t /*count*/) const override { return 0.125; }
  std::size_t max_payload_bytes(std::size_t count) const override { return payload_bytes(count); }

  std::size_t encode(std::span<const float> values, const EncodeContext& context,
                     Workspace& /*workspace*/, std::span<std::byte> payload) const override {
    const std::size_t bytes = payload_bytes(values.size());
    require_room(payload, bytes, values.size());
    auto* exponents = reinterpret_cast<std::uint8_t*>(payload.data());
    std::byte* signs = payload.data() + values.size();
    std::uint8_t plane[kBlock / 8 + 8];
    const Strata* const strata = strata_for(rounding_, context.strata);
    std::uint32_t largest = 0;
    for (std::size_t i = 0; i < values.size(); i += kBlock) {
      const auto block = values.subspan(i, std::min(kBlock, values.size() - i));
      largest = std::max(largest, encode_block(block, context.key, strata, context.first_index + i,
                                               exponents + i, plane));
      std::memcpy(signs + i / 8, plane, (block.size() + 7) / 8);
    }
    if (largest > kLargestBits) fail_too_large(values);
    return bytes;
  }

  void decode_add(std::span<const std::byte> payload, float scale, Workspace& /*workspace*/,
                  std::span<float> sum) const override {
    require_length("natural", payload, payload_bytes(sum.size()), sum.size());
    const auto* exponents = reinterpret_cast<const std::uint8_t*>(payload.data());
    const std::byte* signs = payload.data() + sum.size();
    const auto add = HWY_DYNAMIC_DISPATCH(add_groups);
    const std::size_t whole = sum.size() / kGroup * kGroup;
    std::uint32_t largest = add(exponents, signs, sum.size() / kGroup, scale, sum.data());
    if (whole < sum.size()) {
      const std::size_t rest = sum.size() - whole;
      std::uint8_t last_exponents[kGroup] = {};
      std::byte last_signs[kGroup / 8] = {};
      float last[kGroup] = {};
      std::memcpy(last_exponents, exponents + whole, rest);
      std::memcpy(last_signs, signs + whole / 8, (rest + 7) / 8);
      std::memcpy(last, sum.data() + whole, rest * sizeof(float));
      largest = std::max(largest, add(last_exponents, last_signs, 1, scale, last));
      std::memcpy(sum.data() + whole, last, rest * sizeof(float));
    }
    require_clear_end("natural", payload.subspan(sum.size()), sum.size());
    if (largest == kExponentOfInfinity) {
      fail(Kind::wire,
           "compressor natural: expected exponents below 255 of {} values, found 255, which is "
           "infinity; check the network and memory",
           sum.size());
    }
  }

 private:
  Rounding rounding_;
};

}  // namespace

const CompressorRow kNatural = {.name = "natural",
                                .about = "powers of two, stochastic rounding (natural compression)",
                                .id = CodecId::natural,
                                .make = make_a<Natural>,
                                .reads = {Option::rounding},
                                .colour = "#6987ff"};

}  // namespace eqt::codec
#endif  // HWY_ONCE
