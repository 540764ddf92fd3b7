// SPDX-License-Identifier: Apache-2.0
// Laws that hold for every input: none, fp16, bf16, terngrad, top-k and DGC's codec. More of the
// sparse ones are in sparse_laws_test.cpp.

#include <limits>

#include "codec/catalogue.hpp"
#include "codec/unit/codec_laws.hpp"

using namespace eqt;
using namespace eqt::codec;
using namespace eqt::codec::testing;

namespace {

constexpr float kMax = std::numeric_limits<float>::max();
constexpr float kDenormal = std::numeric_limits<float>::denorm_min();

Codecs all_codecs() {
  Codecs codecs;
  codecs.push_back(make_compressor("none"));
  codecs.push_back(make_compressor("fp16"));
  codecs.push_back(make_compressor("bf16"));
  codecs.push_back(make_compressor("terngrad", {.clip = 0}));
  codecs.push_back(make_compressor("terngrad", {.clip = 2.5}));
  codecs.push_back(make_compressor("topk", {.density = 0.01}));
  codecs.push_back(make_compressor("topk", {.density = 1.0}));
  codecs.push_back(make_compressor("dgc", {.density = 0.25}));
  return codecs;
}

EncodeContext context_of(std::size_t, std::uint32_t rank) {
  EncodeContext context;
  context.key = {11, 3, rank, 5};
  return context;
}

/// zeros, -0, one value, all equal, denormals, up to the largest that a half holds.
std::vector<std::vector<float>> special_inputs(std::size_t count) {
  const auto filled = [&](float v) { return std::vector<float>(count, v); };
  std::vector<std::vector<float>> inputs{filled(0.0f),     filled(-0.0f),     filled(0.25f),
                                         filled(-1e-20f),  filled(kDenormal), filled(-kDenormal),
                                         filled(65504.0f), filled(0.0f),      filled(0.0f)};
  for (std::size_t i = 0; i < count; i += 2) inputs[6][i] = -65504.0f;
  if (count > 0) inputs[7][count / 2] = 3.0f;
  if (count > 0) inputs[8][count - 1] = -kDenormal;
  return inputs;
}

/// The codec's bound on |in - out|, per value or in sum; see the comments at the beginning of the
/// files.
void require_bound(const Compressor& codec, std::span<const float> in, std::span<const float> out) {
  const auto within = [&](double relative, double absolute) {
    for (std::size_t i = 0; i < in.size(); ++i) {
      const double error = std::abs(double{out[i]} - in[i]);
      REQUIRE(error <= std::max(relative * std::abs(double{in[i]}), absolute));
    }
  };
  switch (codec.id()) {
    case CodecId::fp16:
      return within(0x1p-11, 0x1p-25);
    case CodecId::bf16:
      return within(0x1p-8, 0x1p-134);
    case CodecId::terngrad: {
      const float scale = codec.local_scale(in);
      for (std::size_t i = 0; i < in.size(); ++i) {
        REQUIRE((out[i] == 0 || (std::abs(out[i]) == scale && out[i] * in[i] >= 0)));
        if (in[i] == 0) REQUIRE(out[i] == 0);
      }
      return;
    }
    default:
      break;
  }
  if (codec.properties().lossless) {
    for (std::size_t i = 0; i < in.size(); ++i) REQUIRE(in[i] == out[i]);
  }
}

}  // namespace

TEST_CASE("size, bound and repeatability hold for every codec, count and input", "[law]") {
  for (const auto& codec : all_codecs()) {
    INFO(codec_name(codec->id()));
    for (const std::size_t count : kCounts) {
      auto inputs = special_inputs(count);
      for (const double deviation : {1e-38, 1e-6, 1e-2, 100.0}) {
        inputs.push_back(gaussian(count, deviation, count));
      }
      for (const auto& input : inputs) {
        const Bytes payload = encode(*codec, input, context_of(count, 0));
        REQUIRE(payload.size() <= codec->max_payload_bytes(count));
        REQUIRE(payload.empty() == (count == 0));
        REQUIRE(encode(*codec, input, context_of(count, 0)) == payload);
        require_bound(*codec, input, decode(*codec, payload, count));
      }
    }
  }
}

TEST_CASE("another rank gets other bytes exactly if the codec is random", "[law]") {
  check_draws_of_ranks(all_codecs(), context_of);
}

TEST_CASE("decoding adds scale times the value, on every target alike", "[law]") {
  check_scaled_addition(all_codecs(), kCounts, context_of);
}

TEST_CASE("payloads may stand at any address", "[law]") {
  check_addresses(all_codecs(), context_of);
}

TEST_CASE("values that are not finite become an error with their index", "[law]") {
  check_values_not_finite(all_codecs(), kCounts, context_of);
}

TEST_CASE("the largest floats are sent, or refused by casts in which they overflow", "[law]") {
  const std::vector<float> values{kMax, -kMax, 0, 1};
  for (const auto& codec : all_codecs()) {
    INFO(codec_name(codec->id()));
    if (codec->id() == CodecId::fp16 || codec->id() == CodecId::bf16) {
      refusal(Kind::diverged, [&] { encode(*codec, values, context_of(values.size(), 0)); });
    } else {
      const auto out =
          decode(*codec, encode(*codec, values, context_of(values.size(), 0)), values.size());
      require_bound(*codec, values, out);
      REQUIRE(out[0] == kMax);
    }
  }
}

TEST_CASE("ten thousand malformed payloads: a wire error or finite values", "[fuzz]") {
  check_malformed(all_codecs(), 77, context_of);
}
