// Laws that hold for every input: int8, natural, signsgd, ef-signsgd and onebit.

#include <limits>

#include "codec/codecs.hpp"
#include "unit/codec/codec_case.hpp"

using namespace eqt;
using namespace eqt::codec;
using namespace eqt::codec::testing;

namespace {

constexpr float kDenormal = std::numeric_limits<float>::denorm_min();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

std::vector<std::unique_ptr<Compressor>> all_codecs() {
  std::vector<std::unique_ptr<Compressor>> codecs;
  codecs.push_back(make_int8({}));
  codecs.push_back(make_int8({.bucket_size = 24}));
  codecs.push_back(make_natural());
  codecs.push_back(make_signsgd());
  codecs.push_back(make_ef_signsgd());
  codecs.push_back(make_onebit());
  return codecs;
}

/// The awkward counts, and those around the chunk of 4096 values.
std::vector<std::size_t> counts() {
  auto all = kCounts;
  all.insert(all.end(), {4095, 4096, 4097});
  return all;
}

EncodeContext of_rank(std::uint32_t rank, std::size_t rows = 0) {
  EncodeContext context;
  context.key = {11, 3, rank, 5};
  context.rows = rows;
  return context;
}

/// A matrix view of `count` values where they have one.
std::size_t rows_of(std::size_t count) { return count % 3 == 0 ? count / 3 : 0; }

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
        const Bytes payload = encode(*codec, input, of_rank(0, rows_of(count)));
        REQUIRE(payload.size() <= codec->max_payload_bytes(count));
        REQUIRE(payload.empty() == (count == 0));
        REQUIRE(encode(*codec, input, of_rank(0, rows_of(count))) == payload);
        const auto out = decode(*codec, payload, count);
        for (std::size_t i = 0; i < count; ++i) {
          REQUIRE(std::isfinite(out[i]));
          // One step of 127 may be rounded to 0, but no sign is ever turned.
          if (codec->id() != CodecId::onebit) REQUIRE(out[i] * (input[i] < 0 ? -1 : 1) >= 0);
        }
        if (is_zero(input) && !codec->properties().votes) REQUIRE(is_zero(out));
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
    for (const std::size_t count : counts()) {
      const auto context = of_rank(0, rows_of(count));
      const Bytes payload = encode(*codec, gaussian(count, 0.1, count), context);
      const auto decoded = decode(*codec, payload, count);
      const auto start = gaussian(count, 1, 99);
      auto expected = start;
      for (std::size_t i = 0; i < count; ++i) expected[i] += 0.3f * decoded[i];
      on_every_target([&] {
        REQUIRE(encode(*codec, gaussian(count, 0.1, count), context) == payload);
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
    for (const std::size_t count : counts()) {
      if (count == 0) continue;
      for (const float bad : {kInfinity, -kInfinity, std::nanf("")}) {
        for (const std::size_t i : {std::size_t{0}, count / 2, count - 1}) {
          auto values = gaussian(count);
          values[i] = bad;
          const auto message =
              error_of(Kind::diverged, [&] { encode(*codec, values, of_rank(0, rows_of(count))); });
          REQUIRE(contains(message, "index " + std::to_string(i)));
        }
      }
    }
  }
}

TEST_CASE("ten thousand malformed payloads: an error of the wire or values within reach",
          "[fuzz]") {
  const RandomStream stream({78, 0, 0, 0});
  std::uint32_t next = 0;
  const auto draw = [&](std::size_t bound) {
    return static_cast<std::size_t>(stream.bounded(next++, bound));
  };
  for (const auto& codec : all_codecs()) {
    INFO(codec_name(codec->id()));
    int rejected = 0;
    for (int round = 0; round < 10000; ++round) {
      const std::size_t count = kCounts[1 + draw(kCounts.size() - 2)];
      Bytes payload =
          encode(*codec, gaussian(count, 1, 1 + draw(50)), of_rank(0, draw(2) * rows_of(count)));
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
