// SPDX-License-Identifier: Apache-2.0
// none: float32 values as they are.
//
// Payload  n float32 values, little-endian
// Size     4 n bytes
// Error    0
//
// lossless/lossless.hpp has the payload of coding `lossless`.

#include <algorithm>
#include <cstring>
#include <string_view>

#include "codec/bytes.hpp"
#include "codec/catalogue.hpp"
#include "codec/finite.hpp"
#include "codec/lossless/lossless.hpp"
#include "core/error.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "codec/none.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "codec/vectors-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace eqt::codec::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

/// sum[i] += scale * values[i], where the values are in `payload`, unaligned.
/// @return the largest magnitude's bit pattern: above kLargestFiniteBits a value was not finite
std::int32_t add_floats(const std::byte* HWY_RESTRICT payload, float scale, float* HWY_RESTRICT sum,
                        std::size_t count) {
  const hn::ScalableTag<float> df;
  const hn::RebindToSigned<decltype(df)> di;
  const std::size_t lanes = hn::Lanes(df);
  const auto magnitude_bits = hn::Set(di, 0x7FFFFFFF);
  const auto factor = hn::Set(df, scale);
  auto largest = hn::Zero(di);
  std::size_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    const auto value = load_bytes(df, payload + i * sizeof(float));
    largest = hn::Max(largest, hn::And(hn::BitCast(di, value), magnitude_bits));
    hn::StoreU(hn::Add(hn::LoadU(df, sum + i), hn::Mul(factor, value)), df, sum + i);
  }
  std::int32_t result = hn::GetLane(hn::MaxOfLanes(di, largest));
  for (; i < count; ++i) {
    const float value = load<float>(payload + i * sizeof(float));
    result = std::max(result, load<std::int32_t>(payload + i * sizeof(float)) & 0x7FFFFFFF);
    sum[i] += scale * value;
  }
  return result;
}

}  // namespace
}  // namespace eqt::codec::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace eqt::codec {
namespace {

HWY_EXPORT(add_floats);

class None final : public Compressor {
 public:
  CodecId id() const noexcept override { return CodecId::none; }
  std::uint8_t format_version() const noexcept override { return 1; }
  Properties properties() const noexcept override {
    return {.lossless = true, .unbiased = true, .concatenates = true};
  }
  std::size_t max_payload_bytes(std::size_t count) const override { return count * sizeof(float); }
  std::size_t prefix_bytes(std::span<const std::byte> payload, std::size_t count) const override {
    return prefix_of_fixed(payload, max_payload_bytes(count));
  }
  std::optional<double> variance_bound(std::size_t /*count*/) const override { return 0.0; }

  std::size_t encode(std::span<const float> values, const EncodeContext& /*context*/,
                     Workspace& /*workspace*/, std::span<std::byte> payload) const override {
    EQT_CHECK(payload.size() >= values.size_bytes(), "a payload buffer of {} bytes for {} values",
              payload.size(), values.size());
    require_finite("none", values);
    if (!values.empty()) std::memcpy(payload.data(), values.data(), values.size_bytes());
    return values.size_bytes();
  }

  void decode_add(std::span<const std::byte> payload, float scale, Workspace& /*workspace*/,
                  std::span<float> sum) const override {
    if (payload.size() != sum.size_bytes()) {
      fail(Kind::wire,
           "compressor none: expected a payload of {} bytes for {} values, found {}; "
           "the ranks run different configs or builds",
           sum.size_bytes(), sum.size(), payload.size());
    }
    const std::int32_t largest =
        HWY_DYNAMIC_DISPATCH(add_floats)(payload.data(), scale, sum.data(), sum.size());
    if (largest > kLargestFiniteBits) {
      fail(Kind::wire,
           "compressor none: expected finite values in a payload of {} bytes, found NaN "
           "or infinity; check the network and memory",
           payload.size());
    }
  }
};

}  // namespace

const CompressorRow kNone = {.name = "none",
                             .about = "float32; coding lossless: the same in fewer bytes",
                             .id = CodecId::none,
                             .make =
                                 [](const CompressorRow&, const CompressorOptions& options) {
                                   return with_coding(options.coding, std::make_unique<None>());
                                 },
                             .reads = {Option::coding},
                             .codes_floats = true,
                             .colour = "#0072b2"};

}  // namespace eqt::codec
#endif  // HWY_ONCE
