// SPDX-License-Identifier: Apache-2.0
// A compressor whose error is known exactly, for tests of accumulated errors.

#pragma once

#include <cstring>

#include "codec/compressor.hpp"
#include "core/error.hpp"

namespace eqt::test {

/// Every value becomes 3/2 or 1/2 of itself with equal probability: unbiased, and E|decoded - v|^2
/// = |v|^2 / 4 for every v.
class CoinCodec final : public codec::Compressor {
 public:
  static constexpr double kVariance = 0.25;

  codec::CodecId id() const noexcept override { return codec::CodecId::natural; }
  std::uint8_t format_version() const noexcept override { return 99; }
  codec::Properties properties() const noexcept override {
    return {.unbiased = true, .random = true};
  }
  std::size_t max_payload_bytes(std::size_t count) const override { return count * sizeof(float); }

  std::size_t encode(std::span<const float> values, const codec::EncodeContext& context, Workspace&,
                     std::span<std::byte> payload) const override {
    const RandomStream stream(context.key);
    for (std::size_t i = 0; i < values.size(); ++i) {
      const bool up = stream.bits(static_cast<std::uint32_t>(context.first_index + i)) >> 31;
      const float coded = values[i] * (up ? 1.5f : 0.5f);
      std::memcpy(&payload[i * sizeof coded], &coded, sizeof coded);
    }
    return max_payload_bytes(values.size());
  }

  void decode_add(std::span<const std::byte> payload, float scale, Workspace&,
                  std::span<float> sum) const override {
    if (payload.size() != max_payload_bytes(sum.size())) fail(Kind::wire, "a coin was lost");
    for (std::size_t i = 0; i < sum.size(); ++i) {
      float coded = 0;
      std::memcpy(&coded, &payload[i * sizeof coded], sizeof coded);
      sum[i] += scale * coded;
    }
  }
};

}  // namespace eqt::test
