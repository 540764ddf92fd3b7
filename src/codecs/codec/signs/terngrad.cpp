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
// Differs from the authors' code, which scales by c sigma even if max |g| is smaller, which only
//          adds variance. Values whose spread is 0 (one value, or all equal) are not clipped:
//          clipping at 0 would erase them. sigma is that of the values given to encode(), so
//          cutting a slice changes the expectation of the codec with clipping.

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "codec/bytes.hpp"
#include "codec/catalogue.hpp"
#include "codec/finite.hpp"
#include "codec/integer/integer_codec.hpp"
#include "codec/levels/level_kernels.hpp"
#include "codec/signs/terngrad_kernels.hpp"
#include "core/error.hpp"

namespace eqt::codec {
namespace {

std::size_t payload_bytes(std::size_t count) {
  return count == 0 ? 0 : sizeof(float) + (count + 3) / 4;
}

class TernGrad final : public Compressor {
 public:
  explicit TernGrad(const CompressorOptions& options) : clip_(options.clip) {
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
  std::unique_ptr<IntegerCodec> integer_codec() const override;

 private:
  double clip_;
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
  constexpr std::uint64_t kBlock = std::uint64_t{1} << 32;
  return static_cast<std::size_t>(std::min<std::uint64_t>(count, kBlock - index % kBlock));
}

/// Codes of up to 16 values, one at a time: the end of a message, and where a counter crosses 2^32.
std::uint32_t pack_one_word(std::span<const float> values, const EncodeContext& context,
                            std::uint64_t first_index, TernaryRounding rounding) {
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
void pack(std::span<const float> values, const EncodeContext& context, TernaryRounding rounding,
          std::byte* to) {
  std::size_t i = 0;
  while (i < values.size()) {
    const std::uint64_t index = context.first_index + i;
    const std::size_t fits = within_counter_block(index, values.size() - i);
    if (fits >= kCodesPerWord) {
      const RandomStream stream(context.key, static_cast<std::uint32_t>(index >> 32));
      rounding.first = stream.first();
      rounding.second = stream.second();
      const std::size_t words = fits / kCodesPerWord;
      pack_words(values.subspan(i, words * kCodesPerWord), static_cast<std::uint32_t>(index),
                 rounding, to + i / 4);
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
  return std::make_unique<IntegerTernary>(*this);
}

void IntegerTernary::quantise(const SharedBucket& bucket, std::size_t offset,
                              std::span<const float> values, std::span<std::int8_t> codes) const {
  if (bucket.own == 0) return std::fill(codes.begin(), codes.end(), std::int8_t{0});
  for (std::size_t i = 0; i < values.size();) {
    const std::uint64_t index = bucket.first_index + offset + i;
    const std::size_t n = within_counter_block(index, values.size() - i);
    const RandomStream stream(bucket.key, static_cast<std::uint32_t>(index >> 32));
    draw_ternary(values.subspan(i, n), static_cast<std::uint32_t>(index),
                 {bucket.own, bucket.shared, stream.first(), stream.second()}, codes.subspan(i, n));
    i += n;
  }
}

}  // namespace

const CompressorRow kTernGrad = {.name = "terngrad",
                                 .about = "-1, 0 or 1 times a scale that all ranks share",
                                 .id = CodecId::terngrad,
                                 .make = make_a<TernGrad>,
                                 .reads = {Option::clip},
                                 .title = "TernGrad",
                                 .colour = "#69694b"};

}  // namespace eqt::codec
