// Laws that hold for every input: none, fp16, bf16, terngrad, top-k and DGC's codec. More of the
// sparse ones are in sparse_laws_test.cpp.

#include <limits>

#include "codec/codecs.hpp"
#include "unit/codec/codec_case.hpp"

using namespace eqt;
using namespace eqt::codec;
using namespace eqt::codec::testing;

namespace {

constexpr float kMax = std::numeric_limits<float>::max();
constexpr float kDenormal = std::numeric_limits<float>::denorm_min();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

std::vector<std::unique_ptr<Compressor>> all_codecs() {
  std::vector<std::unique_ptr<Compressor>> codecs;
  codecs.push_back(make_none());
  codecs.push_back(make_fp16());
  codecs.push_back(make_bf16());
  codecs.push_back(make_terngrad({.clip = 0}));
  codecs.push_back(make_terngrad({.clip = 2.5}));
  codecs.push_back(make_topk({.density = 0.01}));
  codecs.push_back(make_topk({.density = 1.0}));
  codecs.push_back(make_dgc({.density = 0.25}));
  return codecs;
}

EncodeContext of_rank(std::uint32_t rank) {
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

/// The codec's promise on |in - out|, value by value or in sum; see the file heads.
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
        const Bytes payload = encode(*codec, input, of_rank(0));
        REQUIRE(payload.size() <= codec->max_payload_bytes(count));
        REQUIRE(payload.empty() == (count == 0));
        REQUIRE(encode(*codec, input, of_rank(0)) == payload);
        require_bound(*codec, input, decode(*codec, payload, count));
      }
    }
  }
}

TEST_CASE("another rank draws differently where the codec draws, and nowhere else", "[law]") {
  const auto values = gaussian(10007, 1e-3);
  for (const auto& codec : all_codecs()) {
    INFO(codec_name(codec->id()));
    const bool same = encode(*codec, values, of_rank(0)) == encode(*codec, values, of_rank(1));
    REQUIRE(same == !codec->properties().random);
  }
}

TEST_CASE("decoding adds scale times the value, on every target alike", "[law]") {
  for (const auto& codec : all_codecs()) {
    INFO(codec_name(codec->id()));
    for (const std::size_t count : kCounts) {
      const Bytes payload = encode(*codec, gaussian(count, 0.1, count), of_rank(0));
      const auto decoded = decode(*codec, payload, count);
      const auto start = gaussian(count, 1, 99);
      auto expected = start;
      for (std::size_t i = 0; i < count; ++i) expected[i] += 0.3f * decoded[i];
      on_every_target([&] {
        REQUIRE(encode(*codec, gaussian(count, 0.1, count), of_rank(0)) == payload);
        auto sum = start;
        Workspace workspace;
        codec->decode_add(payload, 0.3f, workspace, sum);
        REQUIRE(same_bits(sum, expected));
      });
    }
  }
}

TEST_CASE("payloads may stand at any address", "[law]") {
  for (const auto& codec : all_codecs()) {
    INFO(codec_name(codec->id()));
    const auto values = gaussian(1001, 0.1);
    const Bytes aligned = encode(*codec, values, of_rank(0));
    for (std::size_t shift = 1; shift < 8; ++shift) {
      Bytes memory(shift + codec->max_payload_bytes(values.size()));
      Workspace workspace;
      const auto payload = std::span(memory).subspan(shift);
      const std::size_t bytes = codec->encode(values, of_rank(0), workspace, payload);
      REQUIRE(std::equal(aligned.begin(), aligned.end(), payload.begin(),
                         payload.begin() + static_cast<std::ptrdiff_t>(bytes)));
      REQUIRE(same_bits(decode(*codec, payload.first(bytes), values.size()),
                        decode(*codec, aligned, values.size())));
    }
  }
}

TEST_CASE("values that are not finite become an error with their index", "[law]") {
  for (const auto& codec : all_codecs()) {
    INFO(codec_name(codec->id()));
    for (const std::size_t count : kCounts) {
      if (count == 0) continue;
      for (const float bad : {kInfinity, -kInfinity, std::nanf("")}) {
        for (const std::size_t i : {std::size_t{0}, count / 2, count - 1}) {
          auto values = gaussian(count);
          values[i] = bad;
          const auto message =
              error_of(Kind::diverged, [&] { encode(*codec, values, of_rank(0)); });
          REQUIRE(contains(message, "index " + std::to_string(i)));
        }
      }
    }
  }
}

TEST_CASE("the largest floats are sent, or refused by the casts that cannot hold them", "[law]") {
  const std::vector<float> values{kMax, -kMax, 0, 1};
  for (const auto& codec : all_codecs()) {
    INFO(codec_name(codec->id()));
    if (codec->id() == CodecId::fp16 || codec->id() == CodecId::bf16) {
      error_of(Kind::diverged, [&] { encode(*codec, values, of_rank(0)); });
    } else {
      const auto out = decode(*codec, encode(*codec, values, of_rank(0)), values.size());
      require_bound(*codec, values, out);
      REQUIRE(out[0] == kMax);
    }
  }
}

TEST_CASE("ten thousand malformed payloads: an error of the wire or values within reach",
          "[fuzz]") {
  const RandomStream stream({77, 0, 0, 0});
  std::uint32_t next = 0;
  const auto draw = [&](std::size_t bound) {
    return static_cast<std::size_t>(stream.bounded(next++, bound));
  };
  for (const auto& codec : all_codecs()) {
    INFO(codec_name(codec->id()));
    int rejected = 0;
    for (int round = 0; round < 10000; ++round) {
      const std::size_t count = kCounts[1 + draw(kCounts.size() - 2)];
      Bytes payload = encode(*codec, gaussian(count, 1, 1 + draw(50)), of_rank(0));
      switch (draw(4)) {
        case 0:
          payload.resize(draw(payload.size()));
          break;
        case 1:
          for (std::size_t extra = 1 + draw(9); extra > 0; --extra)
            payload.push_back(std::byte(draw(256)));
          break;
        case 2:
          for (auto& byte : payload) byte = static_cast<std::byte>(draw(256));
          break;
        default:
          payload[draw(payload.size())] ^= static_cast<std::byte>(1 + draw(255));
      }
      // An exact allocation, so that a sanitizer sees any access outside it.
      const Bytes exact(payload);
      std::vector<float> sum(count, 0.0f);
      Workspace workspace;
      try {
        codec->decode_add(exact, 1.0f, workspace, sum);
        for (const float v : sum) REQUIRE(std::isfinite(v));
      } catch (const Error& error) {
        REQUIRE(error.kind() == Kind::wire);
        ++rejected;
      }
    }
    REQUIRE(rejected > 3000);  // every truncation and extension, at the least
  }
}
