// SPDX-License-Identifier: Apache-2.0
// TernGrad: every value is rounded at random, without bias, to -S, 0 or +S.
//
// Source   W. Wen et al., NeurIPS 2017, arXiv:1705.07878: layer-wise ternarizing, gradient clipping
//          and scaler sharing
// Symbols  n values g, sigma their standard deviation, c clip factor, s own scale, S shared scale
// Method   s = max |g| after clipping at c sigma; S = maximum of s over ranks, or s if not shared;
//          out = S sign(g) b with b ~ Bernoulli(min(|g|, s) / S)
// Payload  S float32, then 2 bits per value, four per byte, first value lowest:
//          0 = 00, +S = 01, -S = 10; the last byte is padded with zeros
// Size     4 + ceil(n / 4) bytes
// Error    without clipping E[out] = in and E|out - in|^2 = sum |g| (S - |g|)
// Damped   S is replaced by the mean |g| of the values whose b is 1: no other scale brings out
//          nearer to g. Without clipping E|out - in|^2 <= w / (1 + w) |g|^2 for the error w |g|^2
//          above, with it (1 - s / (n S)) |g|^2 (docs/compressors.md)
// Differs from the authors' code, which scales by c sigma even if max |g| is smaller, which only
//          adds variance. Values whose spread is 0 (one value, or all equal) are not clipped:
//          clipping at 0 would erase them. sigma is that of the values given to encode(), so
//          cutting a slice changes the expectation of the codec with clipping.

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "codec/bytes.hpp"
#include "codec/catalogue.hpp"
#include "codec/finite.hpp"
#include "codec/integer/integer_codec.hpp"
#include "codec/levels/level_kernels.hpp"
#include "codec/prefetch.hpp"
#include "core/error.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "codec/signs/terngrad.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "codec/bit_plane-inl.hpp"
#include "core/random_words-inl.hpp"

#ifndef EQT_CODEC_TERNGRAD_ONCE
#define EQT_CODEC_TERNGRAD_ONCE
namespace eqt::codec {
namespace {

constexpr std::size_t kBlock = 1024;  // values kept in the first-level cache between passes
constexpr std::uint32_t kLowBits = 0x55555555;  // the lower bit of each code
constexpr std::size_t kCodesPerWord = 16;       // 2-bit codes in 32 bits
constexpr std::size_t kMomentSums = 8;  // fixed, so that every vector width adds in one order

/// Sums over values of (g - g_0) and (g - g_0)^2, by index modulo kMomentSums, and the largest
/// |g|.
struct TernaryMoments {
  double sum[kMomentSums] = {};
  double squares[kMomentSums] = {};
  std::int32_t largest = 0;  // bits of a non-negative float
};

/// The parameters that turn a value into a code.
struct TernaryRounding {
  float limit;  // clips |g|
  float scale;  // S
};

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

/// `whole` is a multiple of kMomentSums.
void add_values(const float* HWY_RESTRICT values, std::size_t whole, double shift,
                TernaryMoments& moments) {
  const hn::CappedTag<double, kMomentSums> dd;
  const hn::Rebind<float, decltype(dd)> df;
  const hn::CappedTag<std::int32_t, kMomentSums> di;
  const auto origin = hn::Set(dd, shift);
  const auto magnitude_bits = hn::Set(di, 0x7FFFFFFF);
  constexpr std::size_t kStep = hn::MaxLanes(dd), kVectors = kMomentSums / kStep;
  constexpr std::size_t kBitsStep = hn::MaxLanes(di), kBitsVectors = kMomentSums / kBitsStep;
  // All vectors in one loop, because each addition waits for the one before.
  hn::Vec<decltype(dd)> sum[kVectors], squares[kVectors];
  for (std::size_t v = 0; v < kVectors; ++v) {
    sum[v] = hn::LoadU(dd, moments.sum + v * kStep);
    squares[v] = hn::LoadU(dd, moments.squares + v * kStep);
  }
  hn::Vec<decltype(di)> largest[kBitsVectors];
  for (auto& bits : largest) bits = hn::Zero(di);
  for (std::size_t i = 0; i < whole; i += kMomentSums) {
    if (i % 64 == 0) prefetch_pages(values + i, 64);
    for (std::size_t v = 0; v < kVectors; ++v) {
      const auto g = hn::Sub(hn::PromoteTo(dd, hn::LoadU(df, values + i + v * kStep)), origin);
      sum[v] = hn::Add(sum[v], g);
      squares[v] = hn::Add(squares[v], hn::Mul(g, g));
    }
    for (std::size_t v = 0; v < kBitsVectors; ++v) {
      const float* from = values + i + v * kBitsStep;
      const auto bits = hn::BitCast(di, hn::LoadU(hn::RebindToFloat<decltype(di)>(), from));
      largest[v] = hn::Max(largest[v], hn::And(bits, magnitude_bits));
    }
  }
  for (std::size_t v = 0; v < kVectors; ++v) {
    hn::StoreU(sum[v], dd, moments.sum + v * kStep);
    hn::StoreU(squares[v], dd, moments.squares + v * kStep);
  }
  for (const auto& bits : largest) {
    moments.largest = std::max(moments.largest, hn::GetLane(hn::MaxOfLanes(di, bits)));
  }
}

void sum_moments(const float* HWY_RESTRICT values, std::size_t count, TernaryMoments& moments) {
  const double shift = values[0];
  const std::size_t whole = count - count % kMomentSums;
  add_values(values, whole, shift, moments);
  // Padding with g_0 adds nothing to either sum.
  float rest[kMomentSums];
  std::fill_n(rest, kMomentSums, values[0]);
  std::copy(values + whole, values + count, rest);
  if (whole < count) add_values(rest, kMomentSums, shift, moments);
}

/// Draws random words for vectors of successive values. kStratified: the stream has strata.
template <bool kStratified, class D>
class TernaryWords {
 public:
  using DU = hn::RebindToUnsigned<D>;

  TernaryWords(const RandomStream& stream, std::uint32_t index)
      : stream_(stream),
        second_(stream.second()),
        multiplier_(stream.multiplier()),
        factor_(kStratified ? stream.strata()->factor() : 0),
        scaled_(hn::Add(hn::Mul(hn::Iota(DU(), index), hn::Set(DU(), kRandomIndexFactor)),
                        hn::Set(DU(), stream.first()))) {}

  /// Starts `count` <= kBlock values, from the counter `index` on, whose strata are looked up.
  void start(std::uint32_t index, std::size_t count) {
    if constexpr (kStratified) stream_.copy_strata(index, {strata_, count});
  }
  /// Draws the words of the next values, g, which begin `at` values after the start.
  HWY_INLINE hn::Vec<DU> next(hn::Vec<D> g, std::size_t at) {
    const DU du;
    const auto scaled = scaled_;
    scaled_ = hn::Add(
        scaled, hn::Set(du, static_cast<std::uint32_t>(hn::MaxLanes(du)) * kRandomIndexFactor));
    if constexpr (!kStratified) return random_words(du, scaled, second_);
    const auto products = random_products(du, scaled, second_, multiplier_);
    const auto words = stratified_words(du, products, hn::LoadU(du, strata_ + at), factor_);
    return complement_if_negative(du, words, g);
  }

  hn::Vec<DU> place() const { return scaled_; }
  void return_to(hn::Vec<DU> place) { scaled_ = place; }

 private:
  const RandomStream& stream_;
  // These are copies, because the bytes that are stored might alias anything.
  const std::uint32_t second_, multiplier_, factor_;
  hn::Vec<DU> scaled_;
  std::uint32_t strata_[kStratified ? kBlock + 16 : 1] = {};
};

/// Mask of the values that become nonzero.
template <class D>
HWY_INLINE hn::Mask<D> drawn(D df, hn::Vec<D> g, hn::Vec<hn::RebindToUnsigned<D>> word,
                             TernaryRounding rounding) {
  const hn::RebindToSigned<D> di;
  const auto uniform =
      hn::Mul(hn::ConvertTo(df, hn::BitCast(di, hn::ShiftRight<8>(word))), hn::Set(df, 0x1p-24f));
  const auto clipped = hn::Min(hn::Abs(g), hn::Set(df, rounding.limit));
  return hn::Lt(uniform, hn::Div(clipped, hn::Set(df, rounding.scale)));
}

/// Bounds of 2^24 / scale, for the cores of small boards, where a vector of quotients takes many
/// cycles.
struct ReciprocalBounds {
  explicit ReciprocalBounds(float scale)
      : useful(HWY_TARGET == HWY_NEON && scale >= 0x1p-90f && scale <= 0x1p90f),
        below(0x1p24f / scale * (1 - 0x1p-20f)),
        above(0x1p24f / scale * (1 + 0x1p-20f)) {}
  bool useful;
  float below, above;
};

/// drawn() without a division, except for the lanes in the mask `unsure`, which it enlarges. Their
/// products with the two bounds are on different sides of the random number. Rounding errors are
/// below 2^-22 of a product, and the bounds are 2^-20 away.
template <class D>
HWY_INLINE hn::Mask<D> drawn_roughly(D df, hn::Vec<D> g, hn::Vec<hn::RebindToUnsigned<D>> word,
                                     TernaryRounding rounding, const ReciprocalBounds& bounds,
                                     hn::Mask<D>& unsure) {
  const hn::RebindToSigned<D> di;
  const auto uniform = hn::ConvertTo(df, hn::BitCast(di, hn::ShiftRight<8>(word)));  // times 2^24
  const auto clipped = hn::Min(hn::Abs(g), hn::Set(df, rounding.limit));
  const auto surely = hn::Lt(uniform, hn::Mul(clipped, hn::Set(df, bounds.below)));
  const auto possibly = hn::Lt(uniform, hn::Mul(clipped, hn::Set(df, bounds.above)));
  unsure = hn::Or(unsure, hn::Xor(surely, possibly));
  return surely;
}

/// Writes a block's codes from its planes of nonzero values and of signs: the nonzero positive ones
/// at the even bits, the nonzero negative ones at the odd bits.
void interleave(const std::uint8_t* HWY_RESTRICT nonzero, const std::uint8_t* HWY_RESTRICT signs,
                std::uint8_t* HWY_RESTRICT codes) {
  // The bits of the index, moved apart.
  alignas(16) static constexpr std::uint8_t kEven[16] = {0x00, 0x01, 0x04, 0x05, 0x10, 0x11,
                                                         0x14, 0x15, 0x40, 0x41, 0x44, 0x45,
                                                         0x50, 0x51, 0x54, 0x55};
#if HWY_TARGET == HWY_SCALAR  // has no vectors of bytes
  for (std::size_t i = 0; i < kBlock / 8; ++i) {
    const unsigned any = nonzero[i], plus = any & ~unsigned{signs[i]}, minus = any & signs[i];
    codes[2 * i] = static_cast<std::uint8_t>(kEven[plus & 15] | kEven[minus & 15] << 1);
    codes[2 * i + 1] = static_cast<std::uint8_t>(kEven[plus >> 4] | kEven[minus >> 4] << 1);
  }
#else
  const hn::Full128<std::uint8_t> d;
  const auto even = hn::Load(d, kEven), odd = hn::Add(even, even), low = hn::Set(d, 0x0F);
  const auto codes_of = [&](auto plus, auto minus) HWY_ATTR {
    return hn::Or(hn::TableLookupBytes(even, plus), hn::TableLookupBytes(odd, minus));
  };
  for (std::size_t i = 0; i < kBlock / 8; i += 16) {
    const auto any = hn::LoadU(d, nonzero + i), sign = hn::LoadU(d, signs + i);
    const auto plus = hn::AndNot(sign, any), minus = hn::And(sign, any);
    const auto first = codes_of(hn::And(plus, low), hn::And(minus, low));
    const auto second = codes_of(hn::ShiftRight<4>(plus), hn::ShiftRight<4>(minus));
    hn::StoreU(hn::InterleaveLower(d, first, second), d, codes + 2 * i);
    hn::StoreU(hn::InterleaveUpper(d, first, second), d, codes + 2 * i + 16);
  }
#endif
}

/// Packs values whose counters do not cross a multiple of 2^32; whole words only. `index` is the
/// low half of the first value's counter.
template <bool kStratified>
void pack_with(const float* HWY_RESTRICT values, std::size_t words, const RandomStream& stream,
               std::uint32_t index, TernaryRounding rounding, std::byte* HWY_RESTRICT to) {
  const hn::CappedTag<float, kCodesPerWord> df;
  const hn::RebindToSigned<decltype(df)> di;
  constexpr std::size_t kStep = mask_group(df);
  TernaryWords<kStratified, hn::CappedTag<float, kCodesPerWord>> random(stream, index);
  // The kernels of masks may write eight bytes at a time.
  std::uint8_t nonzero[kBlock / 8 + 8] = {}, signs[kBlock / 8 + 8] = {};
  const std::size_t count = words * kCodesPerWord;
  const ReciprocalBounds bounds(rounding.scale);
  for (std::size_t begin = 0; begin < count; begin += kBlock) {
    const std::size_t n = std::min(kBlock, count - begin);
    random.start(index + static_cast<std::uint32_t>(begin), n);
    for (std::size_t i = 0; i < n; i += kStep) {
      const float* from = values + begin + i;
      if (i % 64 == 0) prefetch_pages(from, 64);
      std::uint8_t* const nonzero_bits = nonzero + i / 8;
      const auto place = random.place();
      auto unsure = hn::MaskFromVec(hn::Zero(df));
      const auto roughly_nonzero_at = [&](std::size_t j) HWY_ATTR {
        const auto g = hn::LoadU(df, from + j);
        return drawn_roughly(df, g, random.next(g, i + j), rounding, bounds, unsure);
      };
      const auto nonzero_at = [&](std::size_t j) HWY_ATTR {
        const auto g = hn::LoadU(df, from + j);
        return drawn(df, g, random.next(g, i + j), rounding);
      };
      if (bounds.useful) store_masks(df, roughly_nonzero_at, nonzero_bits);
      if (!bounds.useful || !hn::AllFalse(df, unsure)) {
        random.return_to(place);
        store_masks(df, nonzero_at, nonzero_bits);
      }
      const auto sign_at = [&](std::size_t j) HWY_ATTR {
        return hn::Lt(hn::BitCast(di, hn::LoadU(df, from + j)), hn::Zero(di));
      };
      store_masks(di, sign_at, signs + i / 8);
    }
    auto* const codes = reinterpret_cast<std::uint8_t*>(to + begin / 4);
    if (n == kBlock) {
      interleave(nonzero, signs, codes);
    } else {
      std::uint8_t last[kBlock / 4];
      interleave(nonzero, signs, last);
      std::memcpy(codes, last, n / 4);
    }
  }
}

void pack_all(const float* values, std::size_t words, const RandomStream& stream,
              std::uint32_t index, TernaryRounding rounding, std::byte* to) {
  if (stream.strata() != nullptr)
    return pack_with<true>(values, words, stream, index, rounding, to);
  pack_with<false>(values, words, stream, index, rounding, to);
}

/// Draws codes like pack_all(), but writes integers.
template <bool kStratified>
void draw_with(const float* HWY_RESTRICT values, std::size_t count, const RandomStream& stream,
               std::uint32_t index, TernaryRounding rounding, std::int8_t* HWY_RESTRICT codes) {
  const hn::ScalableTag<float> df;
  const hn::RebindToSigned<decltype(df)> di;
  const hn::Rebind<std::int8_t, decltype(df)> d8;
  constexpr std::size_t kLanes = hn::MaxLanes(df);
  TernaryWords<kStratified, hn::ScalableTag<float>> random(stream, index);
  const auto draw = [&](const float* from, std::size_t at, std::int8_t* to) HWY_ATTR {
    const auto g = hn::LoadU(df, from);
    const auto nonzero = hn::RebindMask(di, drawn(df, g, random.next(g, at), rounding));
    // The sign bit spread over its lane is -1 or 0.
    const auto sign = hn::Or(hn::ShiftRight<31>(hn::BitCast(di, g)), hn::Set(di, 1));
    hn::StoreU(hn::DemoteTo(d8, hn::IfThenElseZero(nonzero, sign)), d8, to);
  };
  for (std::size_t begin = 0; begin < count; begin += kBlock) {
    const std::size_t n = std::min(kBlock, count - begin);
    random.start(index + static_cast<std::uint32_t>(begin), n);
    std::size_t i = 0;
    for (; i + kLanes <= n; i += kLanes) draw(values + begin + i, i, codes + begin + i);
    if (i == n) continue;
    float last[kLanes] = {};
    std::int8_t last_codes[kLanes];
    std::copy(values + begin + i, values + begin + n, last);
    draw(last, i, last_codes);
    std::copy(last_codes, last_codes + (n - i), codes + begin + i);
  }
}

void draw_all(const float* values, std::size_t count, const RandomStream& stream,
              std::uint32_t index, TernaryRounding rounding, std::int8_t* codes) {
  if (stream.strata() != nullptr) {
    return draw_with<true>(values, count, stream, index, rounding, codes);
  }
  draw_with<false>(values, count, stream, index, rounding, codes);
}

/// sum[i] += +amount, -amount or zero for whole words of codes.
/// @return bits that are set where a code is 11
std::uint32_t add_all(const std::byte* HWY_RESTRICT from, std::size_t words, float amount,
                      float zero, float* HWY_RESTRICT sum) {
  const hn::CappedTag<float, kCodesPerWord> df;
  const hn::RebindToUnsigned<decltype(df)> du;
  const std::size_t lanes = hn::Lanes(df);
  HWY_ALIGN std::uint32_t plus_bits[kCodesPerWord];
  for (std::size_t j = 0; j < kCodesPerWord; ++j) plus_bits[j] = std::uint32_t{1} << (2 * j);
  const auto plus_bit = hn::LoadU(du, plus_bits);
  const auto minus_bit = hn::Add(plus_bit, plus_bit);
  const auto plus = hn::Set(df, amount);
  const auto minus = hn::Neg(plus);
  const auto none = hn::Set(df, zero);
  std::uint32_t invalid = 0;
  for (std::size_t w = 0; w < words; ++w) {
    if (w % 4 == 0) prefetch_pages(sum + w * kCodesPerWord, 64);
    const std::uint32_t word = load<std::uint32_t>(from + 4 * w);
    invalid |= word & (word >> 1) & kLowBits;
    for (std::size_t j = 0; j < kCodesPerWord; j += lanes) {
      const auto codes = hn::Set(du, word >> (2 * j));
      const auto is_plus = hn::RebindMask(df, hn::TestBit(codes, plus_bit));
      const auto is_minus = hn::RebindMask(df, hn::TestBit(codes, minus_bit));
      const auto value = hn::IfThenElse(is_plus, plus, hn::IfThenElse(is_minus, minus, none));
      float* at = sum + w * kCodesPerWord + j;
      hn::StoreU(hn::Add(hn::LoadU(df, at), value), df, at);
    }
  }
  return invalid;
}

}  // namespace
}  // namespace eqt::codec::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace eqt::codec {
namespace {

HWY_EXPORT(sum_moments);
HWY_EXPORT(pack_all);
HWY_EXPORT(draw_all);
HWY_EXPORT(add_all);

/// Adds all values; g_0 is the first of them.
/// @pre values is not empty
void add_moments(std::span<const float> values, TernaryMoments& moments) {
  HWY_DYNAMIC_DISPATCH(sum_moments)(values.data(), values.size(), moments);
}

/// Writes the codes of values.size() / 16 whole words, 4 bytes each. `index` is the low half of the
/// first value's counter.
/// @pre the counters do not cross a multiple of 2^32
void pack_words(std::span<const float> values, const RandomStream& stream, std::uint32_t index,
                TernaryRounding rounding, std::byte* to) {
  HWY_DYNAMIC_DISPATCH(pack_all)
  (values.data(), values.size() / kCodesPerWord, stream, index, rounding, to);
}

/// codes[i] = -1, 0 or 1 for values[i], drawn as pack_words() draws.
/// @pre the counters do not cross a multiple of 2^32; codes.size() == values.size()
void draw_ternary(std::span<const float> values, const RandomStream& stream, std::uint32_t index,
                  TernaryRounding rounding, std::span<std::int8_t> codes) {
  HWY_DYNAMIC_DISPATCH(draw_all)
  (values.data(), values.size(), stream, index, rounding, codes.data());
}

/// sum[i] += +amount, -amount or zero for sum.size() / 16 whole words of codes.
/// @return bits that are set where a code is 11
std::uint32_t add_words(const std::byte* from, float amount, float zero, std::span<float> sum) {
  return HWY_DYNAMIC_DISPATCH(add_all)(from, sum.size() / kCodesPerWord, amount, zero, sum.data());
}

std::size_t payload_bytes(std::size_t count) {
  return count == 0 ? 0 : sizeof(float) + (count + 3) / 4;
}

class TernGrad final : public Compressor {
 public:
  explicit TernGrad(const CompressorOptions& options)
      : clip_(options.clip), rounding_(options.rounding), damped_(options.damped) {
    if (!(std::isfinite(clip_) && clip_ >= 0)) {
      fail(Kind::usage,
           "compressor terngrad: expected a clip factor of at least 0, found {}; try "
           "2.5, or 0 for no clipping",
           clip_);
    }
  }

  CodecId id() const noexcept override { return CodecId::terngrad; }
  std::uint8_t format_version() const noexcept override { return 1; }
  Properties properties() const noexcept override {
    return {.unbiased = clip_ == 0 && !damped_, .random = true, .shared_scale = true};
  }
  std::size_t max_payload_bytes(std::size_t count) const override { return payload_bytes(count); }
  std::optional<double> variance_bound(std::size_t count) const override {
    if (count == 0) return 0;
    const auto values = static_cast<double>(count);
    if (clip_ != 0) return damped_ ? std::optional(1 - 1 / values) : std::nullopt;
    const double variance = (std::sqrt(values) - 1) / 2;
    return damped_ ? variance / (1 + variance) : variance;
  }

  float local_scale(std::span<const float> values) const override;
  std::size_t encode(std::span<const float> values, const EncodeContext& context,
                     Workspace& workspace, std::span<std::byte> payload) const override;
  void decode_add(std::span<const std::byte> payload, float scale, Workspace& workspace,
                  std::span<float> sum) const override;
  std::unique_ptr<IntegerCodec> integer_codec() const override;
  Rounding rounding() const noexcept { return rounding_; }

 private:
  double clip_;
  Rounding rounding_;
  bool damped_;
};

/// Ternary codes as integers; the scale is that of the whole segment.
class IntegerTernary final : public IntegerCodec {
 public:
  explicit IntegerTernary(const TernGrad& codec) : codec_(codec) {}

  CodecId id() const noexcept override { return codec_.id(); }
  std::uint8_t format_version() const noexcept override {
    return codec_.format_version() | kIntegerVersionBit;
  }
  int largest_code() const noexcept override { return 1; }
  std::size_t bucket_size() const noexcept override { return 0; }
  float own_scale(std::span<const float> bucket) const override {
    return codec_.local_scale(bucket);
  }
  float step(float shared) const noexcept override { return shared; }
  void quantise(const SharedBucket& bucket, std::size_t offset, std::span<const float> values,
                std::span<std::int8_t> codes) const override;

 private:
  TernGrad codec_;
};

float TernGrad::local_scale(std::span<const float> values) const {
  if (values.empty()) return 0;
  if (clip_ == 0) {
    const auto bits = static_cast<std::int32_t>(largest_magnitude_bits(values));
    if (bits > kLargestFiniteBits) require_finite("terngrad", values);
    return std::bit_cast<float>(bits);
  }
  TernaryMoments moments;
  add_moments(values, moments);
  if (moments.largest > kLargestFiniteBits) require_finite("terngrad", values);
  float largest;
  std::memcpy(&largest, &moments.largest, sizeof(largest));
  const auto total = [](const double(&parts)[kMomentSums]) {
    return ((parts[0] + parts[1]) + (parts[2] + parts[3])) +
           ((parts[4] + parts[5]) + (parts[6] + parts[7]));
  };
  const auto count = static_cast<double>(values.size());
  const double mean = total(moments.sum) / count;
  const double variance = std::max(0.0, total(moments.squares) / count - mean * mean);
  const auto limit = static_cast<float>(clip_ * std::sqrt(variance));
  return limit > 0 ? std::min(limit, largest) : largest;
}

/// Returns how many of `count` counters from `index` on are in the same block of 2^32.
std::size_t within_counter_block(std::uint64_t index, std::size_t count) {
  constexpr std::uint64_t kCounters = std::uint64_t{1} << 32;
  return static_cast<std::size_t>(std::min<std::uint64_t>(count, kCounters - index % kCounters));
}

/// Codes of up to 16 values, one at a time: the end of a message, and where a counter crosses 2^32.
std::uint32_t pack_one_word(std::span<const float> values, const EncodeContext& context,
                            const Strata* strata, std::uint64_t first_index,
                            TernaryRounding rounding) {
  std::uint32_t codes = 0;
  for (std::size_t j = 0; j < values.size(); ++j) {
    const std::uint64_t index = first_index + j;
    const RandomStream stream(context.key, static_cast<std::uint32_t>(index >> 32), strata);
    const float probability = std::min(std::abs(values[j]), rounding.limit) / rounding.scale;
    const std::uint32_t word =
        stream.rounding_bits(static_cast<std::uint32_t>(index), std::signbit(values[j]));
    if (static_cast<float>(word >> 8) * 0x1p-24f < probability) {
      codes |= (std::signbit(values[j]) ? 2u : 1u) << (2 * j);
    }
  }
  return codes;
}

/// Writes the codes of all values: vector kernels on whole words within one block of 2^32 counters.
void pack(std::span<const float> values, const EncodeContext& context, const Strata* strata,
          TernaryRounding rounding, std::byte* to) {
  std::size_t i = 0;
  while (i < values.size()) {
    const std::uint64_t index = context.first_index + i;
    const std::size_t fits = within_counter_block(index, values.size() - i);
    if (fits >= kCodesPerWord) {
      const RandomStream stream(context.key, static_cast<std::uint32_t>(index >> 32), strata);
      const std::size_t words = fits / kCodesPerWord;
      pack_words(values.subspan(i, words * kCodesPerWord), stream,
                 static_cast<std::uint32_t>(index), rounding, to + i / 4);
      i += words * kCodesPerWord;
    } else {
      const std::size_t n = std::min(kCodesPerWord, values.size() - i);
      const std::uint32_t word =
          pack_one_word(values.subspan(i, n), context, strata, index, rounding);
      std::memcpy(to + i / 4, &word, (n + 3) / 4);
      i += n;
    }
  }
}

/// Returns the scale with which the codes are nearest to the values: the mean magnitude of those
/// whose code is not 0; `scale` if there is none.
float mean_of_sent(std::span<const float> values, const std::byte* codes, float scale) {
  double sum = 0;
  std::size_t sent = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if ((std::to_integer<unsigned>(codes[i / 4]) >> 2 * (i % 4) & 3u) == 0) continue;
    sum += static_cast<double>(std::abs(values[i]));
    ++sent;
  }
  return sent == 0 ? scale : static_cast<float>(sum / static_cast<double>(sent));
}

std::size_t TernGrad::encode(std::span<const float> values, const EncodeContext& context,
                             Workspace& /*workspace*/, std::span<std::byte> payload) const {
  const std::size_t bytes = payload_bytes(values.size());
  EQT_CHECK(payload.size() >= bytes, "a payload buffer of {} bytes for {} values", payload.size(),
            values.size());
  if (values.empty()) return 0;
  const float own = context.own_scale ? *context.own_scale : local_scale(values);
  const float scale = context.shared_scale.value_or(own);
  EQT_CHECK(std::isfinite(scale) && scale >= 0 && (scale > 0 || own == 0),
            "a shared scale of {} where this rank's own is {}", scale, own);
  store(payload.data(), scale);
  if (own == 0) {
    std::memset(payload.data() + sizeof(float), 0, bytes - sizeof(float));
  } else {
    std::byte* const codes = payload.data() + sizeof(float);
    pack(values, context, strata_for(rounding_, context.strata), {own, scale}, codes);
    if (damped_) store(payload.data(), mean_of_sent(values, codes, scale));
  }
  return bytes;
}

void TernGrad::decode_add(std::span<const std::byte> payload, float scale, Workspace& /*workspace*/,
                          std::span<float> sum) const {
  if (payload.size() != payload_bytes(sum.size())) {
    fail(Kind::wire,
         "compressor terngrad: expected a payload of {} bytes for {} values, found {}; "
         "the ranks run different configs or builds",
         payload_bytes(sum.size()), sum.size(), payload.size());
  }
  if (sum.empty()) return;
  const float shared = load<float>(payload.data());
  if (!(std::isfinite(shared) && !std::signbit(shared))) {
    fail(Kind::wire,
         "compressor terngrad: expected a finite scale of at least 0, found {}; check "
         "the network and memory",
         shared);
  }
  const std::byte* codes = payload.data() + sizeof(float);
  const std::size_t words = sum.size() / kCodesPerWord;
  const std::size_t rest = sum.size() % kCodesPerWord;
  const auto whole = sum.first(words * kCodesPerWord);
  std::uint32_t invalid = add_words(codes, scale * shared, scale * 0.0f, whole);
  if (rest > 0) {
    std::uint32_t word = 0;
    std::memcpy(&word, codes + 4 * words, (rest + 3) / 4);
    std::byte bytes[sizeof(word)];
    store(bytes, word);
    float ends[kCodesPerWord] = {};
    std::copy(sum.end() - static_cast<std::ptrdiff_t>(rest), sum.end(), ends);
    invalid |= add_words(bytes, scale * shared, scale * 0.0f, ends) | word >> (2 * rest);
    std::copy(ends, ends + rest, sum.end() - static_cast<std::ptrdiff_t>(rest));
  }
  if (invalid != 0) {
    fail(Kind::wire,
         "compressor terngrad: expected codes 00, 01 or 10 and zeros after the last of {} "
         "values, found others; check the network and memory",
         sum.size());
  }
}

std::unique_ptr<IntegerCodec> TernGrad::integer_codec() const {
  // The scales of all ranks are one, so no rank can send one of its own.
  if (damped_) return nullptr;
  return std::make_unique<IntegerTernary>(*this);
}

void IntegerTernary::quantise(const SharedBucket& bucket, std::size_t offset,
                              std::span<const float> values, std::span<std::int8_t> codes) const {
  if (bucket.own == 0) return std::fill(codes.begin(), codes.end(), std::int8_t{0});
  const Strata* const strata = strata_for(codec_.rounding(), bucket.strata);
  for (std::size_t i = 0; i < values.size();) {
    const std::uint64_t index = bucket.first_index + offset + i;
    const std::size_t n = within_counter_block(index, values.size() - i);
    const RandomStream stream(bucket.key, static_cast<std::uint32_t>(index >> 32), strata);
    draw_ternary(values.subspan(i, n), stream, static_cast<std::uint32_t>(index),
                 {bucket.own, bucket.shared}, codes.subspan(i, n));
    i += n;
  }
}

}  // namespace

const CompressorRow kTernGrad = {.name = "terngrad",
                                 .about = "-1, 0 or 1 times a scale that all ranks share",
                                 .id = CodecId::terngrad,
                                 .make = make_a<TernGrad>,
                                 .reads = {Option::clip, Option::rounding},
                                 .title = "TernGrad",
                                 .colour = "#69694b"};

}  // namespace eqt::codec
#endif  // HWY_ONCE
