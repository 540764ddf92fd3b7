// TernGrad: every value becomes -S, 0 or +S, at random with the right mean.
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
// Differs  from the authors' code, which scales by c sigma even where max |g| is smaller: that only
//          adds variance. Values whose spread is 0 (one value, or all equal) are not clipped:
//          clipping at 0 would erase them. sigma is that of the values given to encode(), so
//          cutting a slice leaves only the unclipped codec's expectation unchanged.

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <string_view>

#include "codec/bytes.hpp"
#include "codec/codecs.hpp"
#include "codec/finite.hpp"
#include "codec/level_kernels.hpp"
#include "core/error.hpp"

#define HWY_DISABLED_TARGETS (HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV)
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "codec/terngrad.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "codec/bit_plane-inl.hpp"
#include "codec/random_words-inl.hpp"

#ifndef EQT_CODEC_TERNGRAD_ONCE
#define EQT_CODEC_TERNGRAD_ONCE
namespace eqt::codec {
namespace {

constexpr std::size_t kCodesPerWord = 16;  // 2-bit codes in 32 bits
constexpr std::size_t kPartialSums = 8;    // fixed, so that every vector width adds in one order
constexpr std::size_t kChunk = 1024;       // values kept in the first-level cache between passes
constexpr std::uint32_t kLowBits = 0x55555555;  // the lower bit of each code

/// Sums over values of (g - g_0) and (g - g_0)^2, by index modulo kPartialSums, and the largest
/// |g|.
struct Moments {
  double sum[kPartialSums] = {};
  double squares[kPartialSums] = {};
  std::int32_t largest = 0;  // bits of a non-negative float
};

/// What turns a value into a code.
struct Rounding {
  float limit;                  // clips |g|
  float scale;                  // S
  std::uint32_t first, second;  // stream constants; see RandomStream
};

}  // namespace
}  // namespace eqt::codec
#endif

HWY_BEFORE_NAMESPACE();
namespace eqt::codec::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

/// `whole` is a multiple of kPartialSums.
void add_chunk(const float* HWY_RESTRICT values, std::size_t whole, double shift,
               Moments& moments) {
  const hn::CappedTag<double, kPartialSums> dd;
  const hn::Rebind<float, decltype(dd)> df;
  const hn::ScalableTag<float> wide;
  const hn::RebindToSigned<decltype(wide)> di;
  const auto origin = hn::Set(dd, shift);
  for (std::size_t part = 0; part < kPartialSums; part += hn::Lanes(dd)) {
    auto sum = hn::LoadU(dd, moments.sum + part);
    auto squares = hn::LoadU(dd, moments.squares + part);
    for (std::size_t i = part; i < whole; i += kPartialSums) {
      const auto g = hn::Sub(hn::PromoteTo(dd, hn::LoadU(df, values + i)), origin);
      sum = hn::Add(sum, g);
      squares = hn::Add(squares, hn::Mul(g, g));
    }
    hn::StoreU(sum, dd, moments.sum + part);
    hn::StoreU(squares, dd, moments.squares + part);
  }
  const auto magnitude_bits = hn::Set(di, 0x7FFFFFFF);
  const std::size_t lanes = hn::Lanes(wide);
  auto largest = hn::Zero(di);
  std::size_t i = 0;
  for (; i + lanes <= whole; i += lanes) {
    const auto bits = hn::BitCast(di, hn::LoadU(wide, values + i));
    largest = hn::Max(largest, hn::And(bits, magnitude_bits));
  }
  moments.largest = std::max(moments.largest, hn::GetLane(hn::MaxOfLanes(di, largest)));
  for (; i < whole; ++i) {
    std::int32_t bits;
    std::memcpy(&bits, values + i, sizeof(bits));
    moments.largest = std::max(moments.largest, bits & 0x7FFFFFFF);
  }
}

void add_moments(const float* HWY_RESTRICT values, std::size_t count, Moments& moments) {
  const double shift = values[0];
  const std::size_t whole = count - count % kPartialSums;
  for (std::size_t i = 0; i < whole; i += kChunk) {
    add_chunk(values + i, std::min(kChunk, whole - i), shift, moments);
  }
  // Padding with g_0 adds nothing to either sum.
  float rest[kPartialSums];
  std::fill_n(rest, kPartialSums, values[0]);
  std::copy(values + whole, values + count, rest);
  if (whole < count) add_chunk(rest, kPartialSums, shift, moments);
}

/// Where a value becomes nonzero. `scaled_index` is as in random_words().
template <class D>
HWY_INLINE hn::Mask<D> drawn(D df, hn::Vec<D> g, hn::Vec<hn::RebindToUnsigned<D>> scaled_index,
                             Rounding rounding) {
  const hn::RebindToUnsigned<D> du;
  const hn::RebindToSigned<D> di;
  const auto word = random_words(du, scaled_index, rounding.second);
  const auto uniform =
      hn::Mul(hn::ConvertTo(df, hn::BitCast(di, hn::ShiftRight<8>(word))), hn::Set(df, 0x1p-24f));
  const auto clipped = hn::Min(hn::Abs(g), hn::Set(df, rounding.limit));
  return hn::Lt(uniform, hn::Div(clipped, hn::Set(df, rounding.scale)));
}

/// Each bit moves to twice its place.
template <class D>
HWY_INLINE hn::Vec<D> spread_bits(D du, hn::Vec<D> x) {
  x = hn::And(hn::Or(x, hn::ShiftLeft<16>(x)), hn::Set(du, 0x0000FFFF0000FFFFu));
  x = hn::And(hn::Or(x, hn::ShiftLeft<8>(x)), hn::Set(du, 0x00FF00FF00FF00FFu));
  x = hn::And(hn::Or(x, hn::ShiftLeft<4>(x)), hn::Set(du, 0x0F0F0F0F0F0F0F0Fu));
  x = hn::And(hn::Or(x, hn::ShiftLeft<2>(x)), hn::Set(du, 0x3333333333333333u));
  return hn::And(hn::Or(x, hn::ShiftLeft<1>(x)), hn::Set(du, 0x5555555555555555u));
}

/// A chunk's codes from its planes of nonzero values and of signs: the nonzero positive ones at the
/// even bits, the nonzero negative ones at the odd bits.
void interleave(const std::uint32_t* HWY_RESTRICT nonzero, const std::uint32_t* HWY_RESTRICT signs,
                std::uint64_t* HWY_RESTRICT codes) {
  const hn::CappedTag<std::uint64_t, kChunk / 32> du;
  const hn::Rebind<std::uint32_t, decltype(du)> dh;
  for (std::size_t w = 0; w < kChunk / 32; w += hn::Lanes(du)) {
    const auto any = hn::LoadU(dh, nonzero + w);
    const auto sign = hn::LoadU(dh, signs + w);
    const auto plus = spread_bits(du, hn::PromoteTo(du, hn::AndNot(sign, any)));
    const auto minus = spread_bits(du, hn::PromoteTo(du, hn::And(sign, any)));
    hn::StoreU(hn::Or(plus, hn::ShiftLeft<1>(minus)), du, codes + w);
  }
}

/// Packs values whose counters do not cross a multiple of 2^32; whole words only. `index` is the
/// low half of the first value's counter.
void pack_words(const float* HWY_RESTRICT values, std::size_t words, std::uint32_t index,
                Rounding rounding, std::byte* HWY_RESTRICT to) {
  const hn::CappedTag<float, kCodesPerWord> df;
  const hn::RebindToUnsigned<decltype(df)> du;
  const hn::RebindToSigned<decltype(df)> di;
  constexpr std::size_t kLanes = hn::MaxLanes(df);
  constexpr std::size_t kStep = mask_group(df);
  const auto next = hn::Set(du, static_cast<std::uint32_t>(kLanes) * kRandomIndexFactor);
  auto scaled_index = hn::Add(hn::Mul(hn::Iota(du, index), hn::Set(du, kRandomIndexFactor)),
                              hn::Set(du, rounding.first));
  // The kernels of masks may write eight bytes at a time.
  std::uint32_t nonzero[kChunk / 32 + 2] = {}, signs[kChunk / 32 + 2] = {};
  std::uint64_t codes[kChunk / 32];
  const std::size_t count = words * kCodesPerWord;
  for (std::size_t begin = 0; begin < count; begin += kChunk) {
    const std::size_t n = std::min(kChunk, count - begin);
    for (std::size_t i = 0; i < n; i += kStep) {
      const float* from = values + begin + i;
      const auto nonzero_at = [&](std::size_t j) HWY_ATTR {
        const auto mask = drawn(df, hn::LoadU(df, from + j), scaled_index, rounding);
        scaled_index = hn::Add(scaled_index, next);
        return mask;
      };
      const auto sign_at = [&](std::size_t j) HWY_ATTR {
        return hn::Lt(hn::BitCast(di, hn::LoadU(df, from + j)), hn::Zero(di));
      };
      store_masks(df, nonzero_at, reinterpret_cast<std::uint8_t*>(nonzero) + i / 8);
      store_masks(di, sign_at, reinterpret_cast<std::uint8_t*>(signs) + i / 8);
    }
    interleave(nonzero, signs, codes);
    std::memcpy(to + begin / 4, codes, n / 4);
  }
}

/// sum[i] += +amount, -amount or zero for whole words of codes.
/// @return bits that are set where a code is 11
std::uint32_t add_words(const std::byte* HWY_RESTRICT from, std::size_t words, float amount,
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

HWY_EXPORT(add_moments);
HWY_EXPORT(pack_words);
HWY_EXPORT(add_words);

constexpr std::int32_t kLargestFiniteBits = 0x7F7FFFFF;

std::size_t payload_bytes(std::size_t count) {
  return count == 0 ? 0 : sizeof(float) + (count + 3) / 4;
}

class TernGrad final : public Compressor {
 public:
  explicit TernGrad(const TernGradOptions& options) : clip_(options.clip) {
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
    return {.unbiased = clip_ == 0, .random = true, .shared_scale = true};
  }
  std::size_t max_payload_bytes(std::size_t count) const override { return payload_bytes(count); }
  std::optional<double> variance_bound(std::size_t count) const override {
    if (clip_ != 0) return {};
    return count == 0 ? 0 : (std::sqrt(static_cast<double>(count)) - 1) / 2;
  }

  float local_scale(std::span<const float> values) const override;
  std::size_t encode(std::span<const float> values, const EncodeContext& context,
                     Workspace& workspace, std::span<std::byte> payload) const override;
  void decode_add(std::span<const std::byte> payload, float scale, Workspace& workspace,
                  std::span<float> sum) const override;

 private:
  double clip_;
};

float TernGrad::local_scale(std::span<const float> values) const {
  if (values.empty()) return 0;
  if (clip_ == 0) {
    const auto bits = static_cast<std::int32_t>(largest_magnitude_bits(values));
    if (bits > kLargestFiniteBits) require_finite("terngrad", values);
    return std::bit_cast<float>(bits);
  }
  Moments moments;
  HWY_DYNAMIC_DISPATCH(add_moments)(values.data(), values.size(), moments);
  if (moments.largest > kLargestFiniteBits) require_finite("terngrad", values);
  float largest;
  std::memcpy(&largest, &moments.largest, sizeof(largest));
  const auto total = [](const double(&parts)[kPartialSums]) {
    return ((parts[0] + parts[1]) + (parts[2] + parts[3])) +
           ((parts[4] + parts[5]) + (parts[6] + parts[7]));
  };
  const auto count = static_cast<double>(values.size());
  const double mean = total(moments.sum) / count;
  const double variance = std::max(0.0, total(moments.squares) / count - mean * mean);
  const auto limit = static_cast<float>(clip_ * std::sqrt(variance));
  return limit > 0 ? std::min(limit, largest) : largest;
}

/// Codes of up to 16 values, one at a time: the end of a message, and where a counter crosses 2^32.
std::uint32_t pack_one_word(std::span<const float> values, const EncodeContext& context,
                            std::uint64_t first_index, Rounding rounding) {
  std::uint32_t word = 0;
  for (std::size_t j = 0; j < values.size(); ++j) {
    const std::uint64_t index = first_index + j;
    const RandomStream stream(context.key, static_cast<std::uint32_t>(index >> 32));
    const float probability = std::min(std::abs(values[j]), rounding.limit) / rounding.scale;
    if (stream.uniform(static_cast<std::uint32_t>(index)) < probability) {
      word |= (std::signbit(values[j]) ? 2u : 1u) << (2 * j);
    }
  }
  return word;
}

/// Writes the codes of all values: vector kernels on whole words within one block of 2^32 counters.
void pack(std::span<const float> values, const EncodeContext& context, Rounding rounding,
          std::byte* to) {
  constexpr std::uint64_t kBlock = std::uint64_t{1} << 32;
  std::size_t i = 0;
  while (i < values.size()) {
    const std::uint64_t index = context.first_index + i;
    const std::uint64_t in_block = kBlock - index % kBlock;
    const auto fits =
        static_cast<std::size_t>(std::min<std::uint64_t>(values.size() - i, in_block));
    if (fits >= kCodesPerWord) {
      const RandomStream stream(context.key, static_cast<std::uint32_t>(index >> 32));
      rounding.first = stream.first();
      rounding.second = stream.second();
      const std::size_t words = fits / kCodesPerWord;
      HWY_DYNAMIC_DISPATCH(pack_words)
      (values.data() + i, words, static_cast<std::uint32_t>(index), rounding, to + i / 4);
      i += words * kCodesPerWord;
    } else {
      const std::size_t n = std::min(kCodesPerWord, values.size() - i);
      const std::uint32_t word = pack_one_word(values.subspan(i, n), context, index, rounding);
      std::memcpy(to + i / 4, &word, (n + 3) / 4);
      i += n;
    }
  }
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
    pack(values, context, {own, scale, 0, 0}, payload.data() + sizeof(float));
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
  const auto add = HWY_DYNAMIC_DISPATCH(add_words);
  std::uint32_t invalid = add(codes, words, scale * shared, scale * 0.0f, sum.data());
  if (rest > 0) {
    std::uint32_t word = 0;
    std::memcpy(&word, codes + 4 * words, (rest + 3) / 4);
    std::byte bytes[sizeof(word)];
    store(bytes, word);
    float ends[kCodesPerWord] = {};
    std::copy(sum.end() - static_cast<std::ptrdiff_t>(rest), sum.end(), ends);
    invalid |= add(bytes, 1, scale * shared, scale * 0.0f, ends) | word >> (2 * rest);
    std::copy(ends, ends + rest, sum.end() - static_cast<std::ptrdiff_t>(rest));
  }
  if (invalid != 0) {
    fail(Kind::wire,
         "compressor terngrad: expected codes 00, 01 or 10 and zeros after the last of {} "
         "values, found others; check the network and memory",
         sum.size());
  }
}

}  // namespace

std::unique_ptr<Compressor> make_terngrad(const TernGradOptions& options) {
  return std::make_unique<TernGrad>(options);
}

}  // namespace eqt::codec
#endif  // HWY_ONCE
