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
#include <cmath>
#include <cstring>
#include <string_view>

#include "codec/bytes.hpp"
#include "codec/codecs.hpp"
#include "codec/finite.hpp"
#include "core/error.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "codec/terngrad.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

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

/// Codes of one vector of values. `scaled_index` is the first part of RandomStream::bits: each
/// lane's index times its constant, plus the stream's first.
template <class D>
HWY_INLINE hn::Vec<hn::RebindToUnsigned<D>> ternarize(D df, const float* values,
                                                      hn::Vec<hn::RebindToUnsigned<D>> scaled_index,
                                                      Rounding rounding) {
  const hn::RebindToUnsigned<D> du;
  const hn::RebindToSigned<D> di;
  auto h = scaled_index;
  h = hn::Mul(hn::Xor(h, hn::ShiftRight<16>(h)), hn::Set(du, 0x21F0AAADu));
  h = hn::Add(hn::Xor(h, hn::ShiftRight<15>(h)), hn::Set(du, rounding.second));
  h = hn::Mul(h, hn::Set(du, 0xD35A2D97u));
  h = hn::Xor(h, hn::ShiftRight<15>(h));
  const auto uniform =
      hn::Mul(hn::ConvertTo(df, hn::BitCast(di, hn::ShiftRight<8>(h))), hn::Set(df, 0x1p-24f));

  const auto g = hn::LoadU(df, values);
  const auto clipped = hn::Min(hn::Abs(g), hn::Set(df, rounding.limit));
  const auto probability = hn::Div(clipped, hn::Set(df, rounding.scale));
  const auto nonzero = hn::RebindMask(du, hn::Lt(uniform, probability));
  const auto code = hn::Add(hn::Set(du, 1), hn::ShiftRight<31>(hn::BitCast(du, g)));
  return hn::IfThenElseZero(nonzero, code);
}

/// Packs values whose counters do not cross a multiple of 2^32; whole words only. `index` is the
/// low half of the first value's counter.
void pack_words(const float* HWY_RESTRICT values, std::size_t words, std::uint32_t index,
                Rounding rounding, std::byte* HWY_RESTRICT to) {
  const hn::CappedTag<float, kCodesPerWord> df;
  const hn::RebindToUnsigned<decltype(df)> du;
  constexpr std::uint32_t kIndexFactor = 0x9E3779B1;
  const std::size_t lanes = hn::Lanes(df);
  const auto next_vector = hn::Set(du, static_cast<std::uint32_t>(lanes) * kIndexFactor);
  auto scaled_index =
      hn::Add(hn::Mul(hn::Iota(du, index), hn::Set(du, kIndexFactor)), hn::Set(du, rounding.first));
  // Lane j holds value j of a group: multiplied by 4^j its code stands where it belongs.
  HWY_ALIGN std::uint32_t places[kCodesPerWord];
  for (std::size_t j = 0; j < kCodesPerWord; ++j) places[j] = std::uint32_t{1} << (2 * j);
  for (std::size_t w = 0; w < words; ++w) {
    auto word = hn::Zero(du);
    for (std::size_t j = 0; j < kCodesPerWord; j += lanes) {
      const auto code = ternarize(df, values + w * kCodesPerWord + j, scaled_index, rounding);
      scaled_index = hn::Add(scaled_index, next_vector);
      word = hn::Or(word, hn::Mul(code, hn::LoadU(du, places + j)));
    }
    store(to + 4 * w, hn::GetLane(hn::SumOfLanes(du, word)));
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
  Moments moments;
  HWY_DYNAMIC_DISPATCH(add_moments)(values.data(), values.size(), moments);
  if (moments.largest > 0x7F7FFFFF) require_finite("terngrad", values);
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
  const float own = local_scale(values);
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
