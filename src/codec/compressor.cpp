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

std::string_view codec_name(CodecId id) noexcept {
  switch (id) {
    case CodecId::none:
      return "none";
    case CodecId::fp16:
      return "fp16";
    case CodecId::bf16:
      return "bf16";
    case CodecId::qsgd:
      return "qsgd";
    case CodecId::qsgd_v:
      return "qsgd-v";
    case CodecId::elastiquant:
      return "elastiquant";
    case CodecId::e_elastiquant:
      return "e-elastiquant";
    case CodecId::terngrad:
      return "terngrad";
    case CodecId::topk:
      return "topk";
    case CodecId::dgc:
      return "dgc";
    case CodecId::int8:
      return "int8";
    case CodecId::natural:
      return "natural";
    case CodecId::nuqsgd:
      return "nuqsgd";
    case CodecId::alq:
      return "alq";
    case CodecId::amq:
      return "amq";
    case CodecId::randomk:
      return "randomk";
    case CodecId::threshold:
      return "threshold";
    case CodecId::signsgd:
      return "signsgd";
    case CodecId::ef_signsgd:
      return "ef-signsgd";
    case CodecId::onebit:
      return "onebit";
    case CodecId::atomo:
      return "atomo";
    case CodecId::powersgd:
      return "powersgd";
  }
  return "unknown";
}

}  // namespace eqt::codec
