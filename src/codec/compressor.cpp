#include "codec/compressor.hpp"

namespace eqt::codec {

float Compressor::local_scale(std::span<const float> /*values*/) const { return 0; }

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
  }
  return "unknown";
}

}  // namespace eqt::codec
