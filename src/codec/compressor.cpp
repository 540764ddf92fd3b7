#include "codec/compressor.hpp"

namespace eqt::codec {

float Compressor::local_scale(std::span<const float> /*values*/) const { return 0; }

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
