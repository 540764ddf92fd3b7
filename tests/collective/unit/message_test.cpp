// SPDX-License-Identifier: Apache-2.0
#include "codec/message.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
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
constexpr MessageId kId = {.step = 9, .index = 4};

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
  frame.resize(MessageCodec(codec, kSegments, workspace)
                   .encode(values, {.run_seed = 1, .id = kId, .rank = 2}, frame));
  return frame;
}

/// A message that leaves out the segments whose `present` is 0.
std::vector<std::byte> listed_message_of(const Compressor& codec, std::span<const float> values,
                                         const std::vector<std::uint8_t>& present) {
  Workspace workspace;
  std::vector<std::byte> frame(segment_list_bytes(kSegments.size()) +
                               max_message_bytes(codec, kSegments));
  frame.resize(
      MessageCodec(codec, kSegments, workspace)
          .encode(values, {.run_seed = 1, .id = kId, .rank = 2, .present = present}, frame));
  return frame;
}

/// The refusal of a message whose segments may be left out.
std::string listed_refusal(const Compressor& codec, std::span<const std::byte> frame) {
  Workspace workspace;
  std::vector<float> decoded(kCount);
  try {
    MessageCodec(codec, kSegments, workspace).decode_listed_add(frame, kId, 1.0f, decoded);
  } catch (const Error& error) {
    CHECK(error.kind() == Kind::wire);
    return error.what();
  }
  return {};
}

}  // namespace

TEST_CASE("segments that are left out keep their values, others arrive as in a whole message",
          "[message]") {
  const auto values = test::gaussian(kCount, {.run_seed = 2});
  Workspace workspace;
  for (const auto& codec : all_codecs()) {
    std::vector<float> whole(kCount);
    const auto complete = message_of(*codec, values);
    MessageCodec(*codec, kSegments, workspace).decode_add(complete, kId, 1.0f, whole);
    for (unsigned pattern = 0; pattern < 8; ++pattern) {
      std::vector<std::uint8_t> present;
      for (unsigned i = 0; i < 3; ++i)
        present.push_back(static_cast<std::uint8_t>(pattern >> i & 1u));
      const auto frame = listed_message_of(*codec, values, present);
      std::vector<float> decoded(kCount);
      MessageCodec(*codec, kSegments, workspace).decode_listed_add(frame, kId, 1.0f, decoded);
      for (std::size_t i = 0; i < 3; ++i) {
        const Segment& segment = kSegments[i];
        const auto part = std::span(decoded).subspan(segment.begin, segment.count);
        if (present[i] != 0) {
          CHECK(std::ranges::equal(part, std::span(whole).subspan(segment.begin, segment.count)));
        } else {
          CHECK(std::ranges::all_of(part, [](float v) { return v == 0; }));
        }
      }
      // The list is one byte, after the header, with the first segment in its lowest bit.
      if (pattern == 0) CHECK(frame.size() == kFrameHeaderBytes);
      if (pattern != 0) CHECK(frame.at(kFrameHeaderBytes) == std::byte(pattern));
      if (pattern == 7) CHECK(frame.size() == complete.size() + 1);
      CHECK(frame.at(7) == std::byte(pattern == 0 ? 1 : 2));
    }
  }
}

TEST_CASE("a message whose list of segments is wrong is refused", "[message]") {
  const auto values = test::gaussian(kCount, {.run_seed = 2});
  Workspace workspace;
  for (const auto& codec : all_codecs()) {
    const auto good = listed_message_of(*codec, values, {1, 1, 0});
    CHECK(listed_refusal(*codec, good).empty());
    CHECK_FALSE(listed_refusal(*codec, message_of(*codec, values)).empty());  // without a list
    std::vector<float> decoded(kCount);
    CHECK_THROWS_AS(MessageCodec(*codec, kSegments, workspace).decode_add(good, kId, 1.0f, decoded),
                    Error);
    for (std::size_t cut = 0; cut < good.size(); ++cut) {
      if (cut > kFrameHeaderBytes + 1 && cut % 37 != 0 && cut + 3 < good.size()) continue;
      // With the header's length right and wrong.
      std::vector<std::byte> shorter(good.begin(), good.begin() + static_cast<std::ptrdiff_t>(cut));
      CHECK_FALSE(listed_refusal(*codec, shorter).empty());
      if (cut < kFrameHeaderBytes) continue;
      const auto left = static_cast<std::uint32_t>(cut - kFrameHeaderBytes);
      std::memcpy(shorter.data() + 28, &left, sizeof(left));
      CHECK_FALSE(listed_refusal(*codec, shorter).empty());
    }
    for (const int list : {0, 1, 2, 7, 8, 0x83, 0xFF}) {
      INFO("list " << list);
      auto bad = good;
      bad[kFrameHeaderBytes] = std::byte(list);
      CHECK_FALSE(listed_refusal(*codec, bad).empty());
    }
    auto flagged = good;
    flagged[7] = std::byte{1};
    CHECK_FALSE(listed_refusal(*codec, flagged).empty());
    auto nothing = listed_message_of(*codec, values, {0, 0, 0});
    nothing[7] = std::byte{2};
    CHECK_FALSE(listed_refusal(*codec, nothing).empty());
  }
}

TEST_CASE("a malformed message with a list is refused or decodes to finite values", "[message]") {
  const auto values = test::gaussian(kCount, {.run_seed = 2});
  const RandomStream random({.run_seed = 78});
  std::uint32_t draw = 0;
  Workspace workspace;
  for (const auto& codec : all_codecs()) {
    const auto good = listed_message_of(*codec, values, {1, 0, 1});
    int refused = 0;
    constexpr int kTrials = 3000;
    for (int trial = 0; trial < kTrials; ++trial) {
      auto bad = good;
      // Mostly in the list and the lengths, where most damage can be done.
      const std::size_t within = trial % 2 == 0 ? kFrameHeaderBytes + 8 : bad.size();
      for (int i = 0; i <= trial % 3; ++i) {
        const std::size_t place = random.bits(draw++) % within;
        bad[place] ^= std::byte(1 + random.bits(draw++) % 255);
      }
      std::vector<float> decoded(kCount);
      try {
        MessageCodec(*codec, kSegments, workspace).decode_listed_add(bad, kId, 1.0f, decoded);
      } catch (const Error& error) {
        REQUIRE(error.kind() == Kind::wire);
        ++refused;
        continue;
      }
      for (const float v : decoded) REQUIRE(std::isfinite(v));
    }
    CHECK(refused > kTrials * 4 / 10);
  }
}

TEST_CASE("raw segments are decoded bit for bit, compressed ones as by their codec", "[message]") {
  const auto values = test::gaussian(kCount, {.run_seed = 2});
  for (const auto& codec : all_codecs()) {
    const auto frame = message_of(*codec, values);
    Workspace workspace;
    std::vector<float> decoded(kCount), alone(1000);
    MessageCodec(*codec, kSegments, workspace).decode_add(frame, kId, 1.0f, decoded);
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

TEST_CASE(
    "decoding in place of other values equals adding to zeros, between segments nothing changes",
    "[message]") {
  const auto values = test::gaussian(kCount, {.run_seed = 5});
  // The middle segment belongs to another message.
  const std::vector<Segment> segments = {kSegments[0], kSegments[2]};
  for (const auto& codec : all_codecs()) {
    INFO(codec_name(codec->id()));
    Workspace workspace;
    std::vector<std::byte> frame(max_message_bytes(*codec, segments));
    const MessageCodec messages(*codec, segments, workspace);
    frame.resize(messages.encode(values, {.run_seed = 1, .id = kId, .rank = 2}, frame));
    std::vector<float> expected(kCount, 0.0f), found(kCount, 7.5f);
    messages.decode_add(frame, kId, 0.25f, expected);
    messages.decode(frame, kId, 0.25f, found);
    std::fill_n(expected.begin() + 1000, 7, 7.5f);
    CHECK(std::memcmp(found.data(), expected.data(), kCount * sizeof(float)) == 0);
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
        MessageCodec(*codec, kSegments, workspace).decode_add(bad, kId, 1.0f, decoded);
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
      CHECK_THROWS_AS(MessageCodec(*codec, kSegments, workspace)
                          .decode_add(std::span(good).first(length), kId, 1.0f, decoded),
                      Error);
    }
  }
}

TEST_CASE("a raw segment of int8 is int8's payload without a length, with a residual",
          "[message]") {
  const std::vector<Segment> segments = {
      {.slice = 0, .begin = 0, .count = 3, .compressed = false, .int8 = true},
      {.slice = 1, .begin = 3, .count = 1, .compressed = false},
      {.slice = 2, .begin = 4, .count = 2, .compressed = true}};
  const auto bf16 = make_compressor("bf16");
  Workspace workspace;
  const MessageCodec messages(*bf16, segments, workspace);
  REQUIRE(raw_segment_bytes(segments[0]) == 7);
  REQUIRE(raw_segment_bytes(segments[1]) == 4);
  REQUIRE(max_message_bytes(*bf16, segments) == kFrameHeaderBytes + 7 + 4 + 4 + 2 * 2);
  // The example of FORMAT.md: 127, -0.5, 1.5 have the step 1; here as values and residual.
  const std::vector<float> values = {100, 0.25f, 1.5f, 0.1f, 3, 1};
  std::vector<float> residual = {27, -0.75f, 0, 0, 0.5f, 0};
  std::vector<std::byte> frame(max_message_bytes(*bf16, segments));
  REQUIRE(messages.encode(values, {.id = kId, .residual = residual}, frame) == frame.size());
  std::vector<unsigned> payload;
  for (std::size_t i = 0; i < 7; ++i)
    payload.push_back(std::to_integer<unsigned>(frame[kFrameHeaderBytes + i]));
  CHECK(payload == std::vector<unsigned>{0, 0, 0x80, 0x3f, 0x7f, 0, 2});
  // Rounded to even: 0 of -0.5 and 2 of 1.5. The raw float32 keeps nothing.
  CHECK(residual == std::vector<float>{0, -0.5f, -0.5f, 0, 0, 0});
  std::vector<float> decoded(6, 1);
  messages.decode_add(frame, kId, 2, decoded);
  CHECK(decoded == std::vector<float>{255, 1, 5, 1 + 2 * 0.1f, 8, 3});
  const std::vector<std::span<const std::byte>> twice = {frame, frame};
  std::vector<float> sums(6);
  messages.decode_add_all(twice, kId, 0.5f, sums);
  CHECK(sums == std::vector<float>{127, 0, 2, 0.1f, 3.5f, 1});

  // Without a residual the same values are encoded as they are.
  std::vector<std::byte> plain(frame.size());
  REQUIRE(messages.encode(decoded, {.id = kId}, plain) == plain.size());
  const auto refusal_of = [&](std::span<const std::byte> bad) -> std::string {
    try {
      messages.decode_add(bad, kId, 1, sums);
    } catch (const Error& error) {
      CHECK(error.kind() == Kind::wire);
      return error.what();
    }
    return {};
  };
  CHECK(refusal_of(plain).empty());
  // A step below 0, and an integer that int8 never writes.
  plain[kFrameHeaderBytes + 3] |= std::byte{0x80};
  CHECK(refusal_of(plain).find("step") != std::string::npos);
  plain[kFrameHeaderBytes + 3] &= std::byte{0x7f};
  plain[kFrameHeaderBytes + 5] = std::byte{0x80};
  CHECK(refusal_of(plain).find("-127") != std::string::npos);
  // Where the values of the first segment are cut, too few bytes are left.
  const std::vector<Segment> longer = {
      {.slice = 0, .begin = 0, .count = 6, .compressed = false, .int8 = true}};
  std::vector<std::byte> cut(max_message_bytes(*bf16, longer));
  (void)MessageCodec(*bf16, longer, workspace).encode(values, {.id = kId}, cut);
  cut.pop_back();
  const auto header = static_cast<std::uint32_t>(cut.size() - kFrameHeaderBytes);
  std::memcpy(cut.data() + 28, &header, sizeof header);
  try {
    MessageCodec(*bf16, longer, workspace).decode_add(cut, kId, 1, sums);
    FAIL_CHECK("a segment that is cut was not noticed");
  } catch (const Error& error) {
    CHECK(std::string(error.what()).find("expected 10 bytes of slice 0, found 9") !=
          std::string::npos);
  }
}
