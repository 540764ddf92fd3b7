// SPDX-License-Identifier: Apache-2.0
#include "codec/message.hpp"

#include <cmath>
#include <cstring>
#include <vector>

#include "codec/catalogue.hpp"
#include "codec/frame.hpp"
#include "core/error.hpp"
#include "support/catch.hpp"
#include "support/gaussian.hpp"

using namespace eqt;
using namespace eqt::codec;

namespace {

const std::vector<Segment> kSegments = {
    {.slice = 0, .first_index = 0, .begin = 0, .count = 1000, .compressed = true},
    {.slice = 1, .first_index = 0, .begin = 1000, .count = 7, .compressed = false},
    {.slice = 2, .first_index = 0, .begin = 1007, .count = 513, .compressed = true}};
constexpr std::size_t kCount = 1520;

std::vector<std::unique_ptr<Compressor>> all_codecs() {
  std::vector<std::unique_ptr<Compressor>> codecs;
  codecs.push_back(make_compressor("none"));
  codecs.push_back(make_compressor("fp16"));
  codecs.push_back(make_compressor("bf16"));
  codecs.push_back(make_compressor("qsgd", {.bucket_size = 512}));
  codecs.push_back(make_compressor("qsgd-v", {.bucket_size = 512}));
  codecs.push_back(make_compressor("elastiquant"));
  codecs.push_back(make_compressor("e-elastiquant", {.coding = Coding::automatic}));
  codecs.push_back(make_compressor("terngrad"));
  codecs.push_back(make_compressor("topk", {.density = 0.1}));
  codecs.push_back(make_compressor("dgc", {.density = 0.1}));
  codecs.push_back(make_compressor("threshold", {.density = 0.1, .value_bits = 16}));
  codecs.push_back(make_compressor("randomk", {.density = 0.1}));
  return codecs;
}

std::vector<std::byte> message_of(const Compressor& codec, std::span<const float> values) {
  Workspace workspace;
  std::vector<std::byte> frame(max_message_bytes(codec, kSegments));
  frame.resize(
      encode_message(codec, kSegments, values,
                     {.run_seed = 1, .step = 9, .rank = 2, .index = 4, .density = {}, .scales = {}},
                     workspace, frame));
  return frame;
}

}  // namespace

TEST_CASE("raw segments are decoded bit for bit, compressed ones as by their codec", "[message]") {
  const auto values = test::gaussian(kCount, {.run_seed = 2});
  for (const auto& codec : all_codecs()) {
    const auto frame = message_of(*codec, values);
    Workspace workspace;
    std::vector<float> decoded(kCount), alone(1000);
    decode_message_add(*codec, kSegments, frame, 9, 4, 1.0f, workspace, decoded);
    CHECK(std::equal(values.begin() + 1000, values.begin() + 1007, decoded.begin() + 1000));

    std::vector<std::byte> payload(codec->max_payload_bytes(1000));
    payload.resize(codec->encode(std::span(values).first(1000),
                                 {.key = {.run_seed = 1, .step = 9, .rank = 2, .slice = 0},
                                  .first_index = 0,
                                  .shared_scale = {},
                                  .density = {}},
                                 workspace, payload));
    codec->decode_add(payload, 1.0f, workspace, alone);
    CHECK(std::equal(alone.begin(), alone.end(), decoded.begin()));
  }
}

TEST_CASE("a malformed message is refused or decodes to finite values", "[message]") {
  const auto values = test::gaussian(kCount, {.run_seed = 2});
  const RandomStream random({.run_seed = 77});
  std::uint32_t draw = 0;
  for (const auto& codec : all_codecs()) {
    const auto good = message_of(*codec, values);
    Workspace workspace;
    int refused = 0;
    constexpr int kTrials = 10000;
    for (int trial = 0; trial < kTrials; ++trial) {
      auto bad = good;
      switch (random.bits(draw++) % 3) {
        case 0: {
          const std::size_t flips = 1 + random.bits(draw++) % 4;
          for (std::size_t i = 0; i < flips; ++i) {
            const std::size_t at = random.bits(draw++) % bad.size();
            bad[at] ^= std::byte(1 + random.bits(draw++) % 255);
          }
          break;
        }
        case 1:
          bad.resize(random.bits(draw++) % bad.size());
          break;
        default:
          bad.resize(bad.size() + 1 + random.bits(draw++) % 64, std::byte(0x5A));
      }
      std::vector<float> decoded(kCount);
      try {
        decode_message_add(*codec, kSegments, bad, 9, 4, 1.0f, workspace, decoded);
      } catch (const Error& error) {
        refused += error.kind() == Kind::wire;
        continue;
      }
      for (const float v : decoded) REQUIRE(std::isfinite(v));
    }
    // Every truncated or extended one, two thirds of them, must be refused.
    CHECK(refused > kTrials * 6 / 10);
  }
}

TEST_CASE("cutting a message anywhere is detected", "[message]") {
  const auto values = test::gaussian(kCount, {.run_seed = 2});
  for (const auto& codec : all_codecs()) {
    const auto good = message_of(*codec, values);
    Workspace workspace;
    std::vector<float> decoded(kCount);
    for (std::size_t length = 0; length < good.size(); length += 1 + length / 8) {
      CHECK_THROWS_AS(decode_message_add(*codec, kSegments, std::span(good).first(length), 9, 4,
                                         1.0f, workspace, decoded),
                      Error);
    }
  }
}
