// SPDX-License-Identifier: Apache-2.0
// Laws that hold for every input: int8, int8-channels, natural, signsgd, ef-signsgd and onebit.

#include <limits>

#include "codec/catalogue.hpp"
#include "codec/unit/codec_laws.hpp"

using namespace eqt;
using namespace eqt::codec;
using namespace eqt::codec::testing;

namespace {

constexpr float kDenormal = std::numeric_limits<float>::denorm_min();

Codecs all_codecs() {
  Codecs codecs;
  codecs.push_back(make_compressor("int8"));
  codecs.push_back(make_compressor("int8", {.bucket_size = 24}));
  codecs.push_back(make_compressor("int8-channels"));
  codecs.push_back(make_compressor("natural"));
  codecs.push_back(make_compressor("signsgd"));
  codecs.push_back(make_compressor("ef-signsgd"));
  codecs.push_back(make_compressor("onebit"));
  return codecs;
}

/// The awkward counts, and those around the chunk of 4096 values.
std::vector<std::size_t> counts() {
  auto all = kCounts;
  all.insert(all.end(), {4095, 4096, 4097});
  return all;
}

/// With a matrix view of `count` values where they have one.
EncodeContext context_of(std::size_t count, std::uint32_t rank) {
  EncodeContext context;
  context.key = {11, 3, rank, 5};
  context.rows = count % 3 == 0 ? count / 3 : 0;
  return context;
}

/// zeros, -0, one value, all equal, denormals, near the largest.
std::vector<std::vector<float>> special_inputs(std::size_t count) {
  const auto filled = [&](float v) { return std::vector<float>(count, v); };
  std::vector<std::vector<float>> inputs{filled(0.0f),    filled(-0.0f),     filled(-0.25f),
                                         filled(-1e-20f), filled(kDenormal), filled(-kDenormal),
                                         filled(1e38f),   filled(0.0f),      filled(0.0f)};
  for (std::size_t i = 0; i < count; i += 2) inputs[6][i] = -1.7e38f;
  if (count > 0) inputs[7][count / 2] = -3.0f;
  if (count > 0) inputs[8][count - 1] = -kDenormal;
  return inputs;
}

bool is_zero(std::span<const float> values) {
  return std::all_of(values.begin(), values.end(), [](float v) { return v == 0; });
}

}  // namespace

TEST_CASE("size, repeatability and finite decoded values for every codec, count and input",
          "[law]") {
  for (const auto& codec : all_codecs()) {
    INFO(codec_name(codec->id()));
    for (const std::size_t count : counts()) {
      auto inputs = special_inputs(count);
      for (const double deviation : {1e-38, 1e-6, 100.0}) {
        inputs.push_back(gaussian(count, deviation, count));
      }
      for (const auto& input : inputs) {
        const Bytes payload = encode(*codec, input, context_of(count, 0));
        REQUIRE(payload.size() <= codec->max_payload_bytes(count));
        REQUIRE(payload.empty() == (count == 0));
        REQUIRE(encode(*codec, input, context_of(count, 0)) == payload);
        const auto out = decode(*codec, payload, count);
        for (std::size_t i = 0; i < count; ++i) {
          REQUIRE(std::isfinite(out[i]));
          // One step of 127 may be rounded to 0, but no sign changes.
          if (codec->id() != CodecId::onebit) REQUIRE(out[i] * (input[i] < 0 ? -1 : 1) >= 0);
        }
        if (is_zero(input) && !codec->properties().votes) REQUIRE(is_zero(out));
      }
    }
  }
}

TEST_CASE("another rank gets other bytes exactly if the codec is random", "[law]") {
  check_draws_of_ranks(all_codecs(), context_of);
}

TEST_CASE("decoding adds scale times the value, on every target alike", "[law]") {
  check_scaled_addition(all_codecs(), counts(), context_of);
}

TEST_CASE("payloads may stand at any address", "[law]") {
  check_addresses(all_codecs(), context_of);
}

TEST_CASE("values that are not finite become an error with their index", "[law]") {
  check_values_not_finite(all_codecs(), counts(), context_of);
}

TEST_CASE("ten thousand malformed payloads: a wire error or finite values", "[fuzz]") {
  check_malformed(all_codecs(), 78, context_of);
}
