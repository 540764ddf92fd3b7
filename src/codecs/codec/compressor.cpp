// SPDX-License-Identifier: Apache-2.0
#include "codec/compressor.hpp"

#include "codec/integer/integer_codec.hpp"
#include "core/error.hpp"

namespace eqt::codec {

float Compressor::local_scale(std::span<const float> /*values*/) const { return 0; }

std::unique_ptr<IntegerCodec> Compressor::integer_codec() const { return nullptr; }

std::size_t Compressor::prefix_bytes(std::span<const std::byte> /*payload*/,
                                     std::size_t /*count*/) const {
  return 0;
}

void Compressor::decode_add_all(std::span<const std::span<const std::byte>> payloads, float scale,
                                Workspace& workspace, std::span<float> sum) const {
  for (const auto payload : payloads) decode_add(payload, scale, workspace, sum);
}

std::size_t Compressor::encode_with_feedback(std::span<const float> gradient,
                                             const EncodeContext& context, Workspace& workspace,
                                             std::span<float> residual,
                                             std::span<std::byte> payload) const {
  EQT_CHECK(residual.size() == gradient.size(), "{} residuals for {} values", residual.size(),
            gradient.size());
  for (std::size_t i = 0; i < residual.size(); ++i) residual[i] += gradient[i];
  const std::size_t bytes = encode(residual, context, workspace, payload);
  decode_add(payload.first(bytes), -1.0f, workspace, residual);
  return bytes;
}

std::optional<double> Compressor::variance_bound(std::size_t /*count*/) const { return {}; }

void Compressor::finish_mean(std::span<float> /*mean*/) const {}

const LevelRounding* Compressor::level_rounding() const noexcept { return nullptr; }

AdaptiveLevelCodec* Compressor::adaptive_levels() noexcept { return nullptr; }

MixedGrades* Compressor::mixed_grades() noexcept { return nullptr; }

void Compressor::require_payload_of(std::uint32_t /*slice*/,
                                    std::span<const std::byte> /*payload*/) const {}

}  // namespace eqt::codec
