// SPDX-License-Identifier: Apache-2.0
// fp16 and bf16: each value rounded to 16 bits.
//
// Source   IEEE 754-2019, binary16 and round to nearest, ties to even; bfloat16 is the upper 16
//          bits of a binary32
// Payload  n 16-bit patterns, little-endian
// Size     2 n bytes
// Error    fp16: |out - in| <= max(2^-11 |in|, 2^-25) for |in| < 65520;
//          bf16: |out - in| <= max(2^-8 |in|, 2^-134). Deterministic, so biased.
// Differs  from IEEE: a value that would become infinite is Error{diverged}, never a payload
//
// The arithmetic is on integers and exact floats, because the conversion instructions of the vector
// units and their emulations disagree in rounding and on subnormal numbers.
// lossless/lossless.hpp has the payload of bf16 with coding `lossless`.

#include "codec/casts.hpp"

#include <cstring>
#include <string_view>

#include "codec/bytes.hpp"
#include "codec/catalogue.hpp"
#include "codec/finite.hpp"
#include "codec/lossless/lossless.hpp"
#include "core/error.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "codec/casts.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "codec/vectors-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace eqt::codec::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

using Floats = hn::ScalableTag<float>;
using Ints = hn::RebindToSigned<Floats>;
using Words = hn::Rebind<std::uint16_t, Floats>;
using FloatVector = hn::Vec<Floats>;
using IntVector = hn::Vec<Ints>;

struct Half {
  /// Bits of |value| rounded to half, value's sign removed: `magnitude` is its bit pattern.
  static HWY_INLINE IntVector round(IntVector magnitude) {
    const Floats df;
    const Ints di;
    // Normal halves: rebias the exponent from 127 to 15 and round away 13 of 23 fraction bits. A
    // carry runs into the exponent, as it should.
    const auto odd = hn::And(hn::ShiftRight<13>(magnitude), hn::Set(di, 1));
    const auto rebias = hn::Set(di, -(112 << 23) + 0xFFF);
    const auto normal = hn::ShiftRight<13>(hn::Add(hn::Add(magnitude, rebias), odd));
    // Subnormal halves are multiples of 2^-24, the spacing of floats in [0.5, 1): the addition
    // rounds to one, and its fraction bits are the multiple.
    const auto half = hn::Set(df, 0.5f);
    const auto subnormal =
        hn::Sub(hn::BitCast(di, hn::Add(hn::BitCast(df, magnitude), half)), hn::BitCast(di, half));
    const auto smallest_normal = hn::Set(di, 113 << 23);
    const auto rounded = hn::IfThenElse(hn::Lt(magnitude, smallest_normal), subnormal, normal);
    const auto infinity = hn::Set(di, 0x7C00);
    const auto is_nan = hn::Gt(magnitude, hn::Set(di, 0x7F800000));
    return hn::IfThenElse(is_nan, hn::Set(di, 0x7E00), hn::Min(rounded, infinity));
  }

  /// |value| of finite half bits without the sign.
  static HWY_INLINE FloatVector value(IntVector magnitude) {
    const Floats df;
    const Ints di;
    const auto normal = hn::Add(hn::ShiftLeft<13>(magnitude), hn::Set(di, 112 << 23));
    const auto subnormal = hn::Mul(hn::ConvertTo(df, magnitude), hn::Set(df, 0x1p-24f));
    const auto is_subnormal = hn::Lt(magnitude, hn::Set(di, 0x400));
    return hn::IfThenElse(hn::RebindMask(df, is_subnormal), subnormal, hn::BitCast(df, normal));
  }
};

struct Bfloat {
  static HWY_INLINE IntVector round(IntVector magnitude) {
    const Ints di;
    const auto odd = hn::And(hn::ShiftRight<16>(magnitude), hn::Set(di, 1));
    // A NaN could be rounded to infinity or past the largest integer.
    const auto is_nan = hn::Gt(magnitude, hn::Set(di, 0x7F800000));
    const auto safe = hn::IfThenElse(is_nan, hn::Set(di, 0x7FC00000), magnitude);
    return hn::ShiftRight<16>(hn::Add(hn::Add(safe, hn::Set(di, 0x7FFF)), odd));
  }

  static HWY_INLINE FloatVector value(IntVector magnitude) {
    return hn::BitCast(Floats(), hn::ShiftLeft<16>(magnitude));
  }
};

/// One vector of floats to 16-bit patterns at `to`; keeps the largest magnitude.
template <class Format>
HWY_INLINE void encode_vector(const float* from, std::byte* to, IntVector& largest) {
  const Ints di;
  const auto bits = hn::BitCast(di, hn::LoadU(Floats(), from));
  const auto rounded = Format::round(hn::And(bits, hn::Set(di, 0x7FFFFFFF)));
  largest = hn::Max(largest, rounded);
  const auto sign = hn::And(hn::ShiftRight<16>(bits), hn::Set(di, 0x8000));
  const auto words = hn::DemoteTo(Words(), hn::Or(rounded, sign));
  store_bytes(words, Words(), to);
}

/// sum += scale * values of one vector of 16-bit patterns; keeps the largest magnitude.
template <class Format>
HWY_INLINE void add_vector(const std::byte* from, FloatVector scale, float* sum,
                           IntVector& largest) {
  const Floats df;
  const Ints di;
  const auto words = load_bytes(Words(), from);
  const auto bits = hn::PromoteTo(di, words);
  const auto magnitude = hn::And(bits, hn::Set(di, 0x7FFF));
  largest = hn::Max(largest, magnitude);
  const auto sign = hn::BitCast(df, hn::ShiftLeft<16>(hn::AndNot(hn::Set(di, 0x7FFF), bits)));
  const auto value = hn::Or(Format::value(magnitude), sign);
  hn::StoreU(hn::Add(hn::LoadU(df, sum), hn::Mul(scale, value)), df, sum);
}

constexpr std::size_t kMaxLanes = hn::MaxLanes(Floats());

template <class Format>
std::uint32_t encode_all(const float* HWY_RESTRICT values, std::size_t count,
                         std::byte* HWY_RESTRICT to) {
  const std::size_t lanes = hn::Lanes(Floats());
  auto largest = hn::Zero(Ints());
  std::size_t i = 0;
  for (; i + lanes <= count; i += lanes) encode_vector<Format>(values + i, to + 2 * i, largest);
  if (i < count) {
    float in[kMaxLanes] = {};
    std::byte out[2 * kMaxLanes];
    std::memcpy(in, values + i, (count - i) * sizeof(float));
    encode_vector<Format>(in, out, largest);
    std::memcpy(to + 2 * i, out, 2 * (count - i));
  }
  return static_cast<std::uint32_t>(hn::GetLane(hn::MaxOfLanes(Ints(), largest)));
}

template <class Format>
std::uint32_t add_all(const std::byte* HWY_RESTRICT from, float scale, float* HWY_RESTRICT sum,
                      std::size_t count) {
  const std::size_t lanes = hn::Lanes(Floats());
  const auto factor = hn::Set(Floats(), scale);
  auto largest = hn::Zero(Ints());
  std::size_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    add_vector<Format>(from + 2 * i, factor, sum + i, largest);
  }
  if (i < count) {
    std::byte in[2 * kMaxLanes] = {};
    float out[kMaxLanes] = {};
    std::memcpy(in, from + 2 * i, 2 * (count - i));
    std::memcpy(out, sum + i, (count - i) * sizeof(float));
    add_vector<Format>(in, factor, out, largest);
    std::memcpy(sum + i, out, (count - i) * sizeof(float));
  }
  return static_cast<std::uint32_t>(hn::GetLane(hn::MaxOfLanes(Ints(), largest)));
}

std::uint32_t encode_half(const float* values, std::size_t count, std::byte* payload) {
  return encode_all<Half>(values, count, payload);
}
std::uint32_t encode_bfloat(const float* values, std::size_t count, std::byte* payload) {
  return encode_all<Bfloat>(values, count, payload);
}
std::uint32_t add_half(const std::byte* payload, float scale, float* sum, std::size_t count) {
  return add_all<Half>(payload, scale, sum, count);
}
std::uint32_t add_bfloat(const std::byte* payload, float scale, float* sum, std::size_t count) {
  return add_all<Bfloat>(payload, scale, sum, count);
}

}  // namespace
}  // namespace eqt::codec::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace eqt::codec {
namespace {

HWY_EXPORT(encode_half);
HWY_EXPORT(encode_bfloat);
HWY_EXPORT(add_half);
HWY_EXPORT(add_bfloat);

/// The differences between the two casts.
struct Format {
  CodecId id;
  std::uint32_t infinity;
  std::uint32_t (*cast)(std::span<const float> values, std::byte* payload);
  std::uint32_t (*add)(const std::byte* payload, float scale, std::span<float> sum);
  float largest;           // that does not round to infinity
  double variance_bound;   // the largest relative error of a normal value, squared
  std::string_view wider;  // the compressor to try when values are too large for this one
};

class Cast final : public Compressor {
 public:
  explicit Cast(const Format& format) : format_(format) {}

  CodecId id() const noexcept override { return format_.id; }
  std::uint8_t format_version() const noexcept override { return 1; }
  Properties properties() const noexcept override {
    return {.largest = format_.largest, .concatenates = true};
  }
  std::size_t max_payload_bytes(std::size_t count) const override { return 2 * count; }
  std::size_t prefix_bytes(std::span<const std::byte> payload, std::size_t count) const override {
    return prefix_of_fixed(payload, max_payload_bytes(count));
  }
  std::optional<double> variance_bound(std::size_t /*count*/) const override {
    return format_.variance_bound;
  }

  std::size_t encode(std::span<const float> values, const EncodeContext& /*context*/,
                     Workspace& /*workspace*/, std::span<std::byte> payload) const override {
    const std::size_t bytes = 2 * values.size();
    EQT_CHECK(payload.size() >= bytes, "a payload buffer of {} bytes for {} values", payload.size(),
              values.size());
    if (format_.cast(values, payload.data()) >= format_.infinity) fail_too_large(values);
    return bytes;
  }

  void decode_add(std::span<const std::byte> payload, float scale, Workspace& /*workspace*/,
                  std::span<float> sum) const override {
    const std::string_view name = codec_name(format_.id);
    if (payload.size() != 2 * sum.size()) {
      fail(Kind::wire,
           "compressor {}: expected a payload of {} bytes for {} values, found {}; "
           "the ranks run different configs or builds",
           name, 2 * sum.size(), sum.size(), payload.size());
    }
    if (format_.add(payload.data(), scale, sum) >= format_.infinity) {
      fail(Kind::wire,
           "compressor {}: expected finite values in a payload of {} bytes, found NaN "
           "or infinity; check the network and memory",
           name, payload.size());
    }
  }

 private:
  [[noreturn]] void fail_too_large(std::span<const float> values) const {
    const std::string_view name = codec_name(format_.id);
    require_finite(name, values);
    std::size_t i = 0;
    for (std::byte bits[2]; format_.cast(values.subspan(i, 1), bits) < format_.infinity;) ++i;
    fail(Kind::diverged,
         "compressor {}: expected values that do not round to infinity in 16 bits, found {} at "
         "index {} of {}; try compressor.name={}, whose range is wider, or a lower "
         "optimizer.learning_rate",
         name, values[i], i, values.size(), format_.wider);
  }

  Format format_;
};

}  // namespace

std::uint32_t cast_to_half(std::span<const float> values, std::byte* halves) {
  return HWY_DYNAMIC_DISPATCH(encode_half)(values.data(), values.size(), halves);
}

std::uint32_t cast_to_bfloat(std::span<const float> values, std::byte* bfloats) {
  return HWY_DYNAMIC_DISPATCH(encode_bfloat)(values.data(), values.size(), bfloats);
}

std::uint32_t add_halves(const std::byte* halves, float scale, std::span<float> sum) {
  return HWY_DYNAMIC_DISPATCH(add_half)(halves, scale, sum.data(), sum.size());
}

std::uint32_t add_bfloats(const std::byte* bfloats, float scale, std::span<float> sum) {
  return HWY_DYNAMIC_DISPATCH(add_bfloat)(bfloats, scale, sum.data(), sum.size());
}

const CompressorRow kFp16 = {
    .name = "fp16",
    .about = "IEEE half precision, round to nearest",
    .id = CodecId::fp16,
    .make = [](const CompressorRow&, const CompressorOptions&) -> std::unique_ptr<Compressor> {
      return std::make_unique<Cast>(Format{CodecId::fp16, kHalfInfinity, cast_to_half, add_halves,
                                           0x1.ffdffep15f, 0x1p-22, "bf16"});
    },
    .colour = "#a587a5"};

const CompressorRow kBf16 = {
    .name = "bf16",
    .about = "bfloat16, round to nearest; coding lossless: the same in fewer bytes",
    .id = CodecId::bf16,
    .make =
        [](const CompressorRow&, const CompressorOptions& options) {
          return with_coding(options.coding, std::make_unique<Cast>(Format{
                                                 CodecId::bf16, kBfloatInfinity, cast_to_bfloat,
                                                 add_bfloats, 0x1.fefffep127f, 0x1p-16, "none"}));
        },
    .reads = {Option::coding},
    .codes_floats = true,
    .colour = "#00a500"};

}  // namespace eqt::codec
#endif  // HWY_ONCE
