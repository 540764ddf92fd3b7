// SPDX-License-Identifier: Apache-2.0
// GradientEncoder against the host's message encoding, on a queue that runs later than it is asked.

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "codec/message.hpp"
#include "device/gradient_encoder.hpp"
#include "support/catch.hpp"
#include "support/device_cases.hpp"
#include "support/refusal.hpp"

using namespace eqt;
using namespace eqt::device;

namespace {

constexpr std::size_t kCount = 60017;
constexpr std::uint64_t kSeed = 7;
constexpr Rank kRank = 3;

/// Returns the strata of a slice; one slice has those of another group of ranks.
const Strata* strata_for(std::uint32_t slice) {
  return slice == 3 ? strata_of(1, 2) : strata_of(3, 5);
}

/// Three buckets, sent from the last value to the first: segments at odd places, cut slices, raw
/// ones, and in the middle bucket a chunk that the rank keeps.
std::vector<EncodedBucket> make_buckets(std::size_t granule) {
  const std::size_t cut = granule * ((8192 + granule - 1) / granule);
  const std::size_t a = 1001, b = a + cut, c = b + cut, d = c + 37;
  const auto segment = [](std::uint32_t slice, std::size_t first, std::size_t begin,
                          std::size_t end, bool compressed) {
    return codec::Segment{.slice = slice,
                          .first_index = first,
                          .begin = begin,
                          .count = end - begin,
                          .compressed = compressed};
  };
  return {{.begin = d,
           .end = kCount,
           .encoded = {segment(3, 0, d, kCount, true)},
           .strata = {strata_for(3)},
           .plain = {}},
          {.begin = b,
           .end = d,
           .encoded = {segment(1, cut, b, c, true)},
           .strata = {strata_for(1)},
           .plain = {segment(2, 0, c, d, false)}},
          {.begin = 0,
           .end = b,
           .encoded = {segment(0, 0, 0, a, true)},
           .strata = {strata_for(0)},
           .plain = {segment(1, 0, a, b, true)}}};
}

std::vector<float> gradient_of(StepId step) {
  auto values = test::gaussian(kCount, {kSeed, step, 0, 0});
  std::fill(values.begin() + 30000, values.begin() + 42000, 0.0f);  // buckets of zeros
  return values;
}

/// An encoder and what the host would do.
struct Rehearsal {
  const codec::Compressor& compressor;
  std::vector<EncodedBucket> buckets;
  bool plain_feedback;
  std::vector<float> on_device = std::vector<float>(kCount), gradient = on_device;
  std::vector<float> residual, expected_residual;
  std::unique_ptr<GradientEncoder> encoder;
  Workspace workspace = {};

  Rehearsal(const codec::Compressor& of, bool feedback, bool with_plain)
      : compressor(of),
        buckets(make_buckets(std::max<std::size_t>(1, of.properties().granule))),
        plain_feedback(with_plain),
        residual(feedback ? kCount : 0),
        expected_residual(residual),
        encoder(make_gradient_encoder({.compressor = of,
                                       .queue = make_late_emulated_queue(),
                                       .device_gradient = on_device.data(),
                                       .gradient = gradient,
                                       .residual = residual,
                                       .plain_feedback = with_plain,
                                       .rank = kRank},
                                      buckets)) {}

  void step(StepId step) {
    std::ranges::copy(gradient_of(step), on_device.begin());
    std::ranges::fill(gradient, 777.0f);
    encoder->begin(kSeed, step);
    for (std::size_t b = 0; b < buckets.size(); ++b) {
      CHECK_FALSE(encoder->is_done(b));
      encoder->start(b);
    }
    for (std::size_t b = 0; b < buckets.size(); ++b) {
      REQUIRE(encoder->finish(b));
      CHECK(encoder->is_done(b));
      for (const codec::Segment& segment : buckets[b].encoded) check_payload(segment, step);
      for (const codec::Segment& segment : buckets[b].plain) check_plain(segment);
    }
  }

  void check_payload(const codec::Segment& segment, StepId step) {
    const codec::EncodeContext context{
        .key = {kSeed, step, static_cast<std::uint32_t>(kRank), segment.slice},
        .first_index = segment.first_index,
        .shared_scale = {},
        .own_scale = {},
        .density = {},
        .strata = strata_for(segment.slice)};
    const auto values = std::span<const float>(on_device).subspan(segment.begin, segment.count);
    std::vector<std::byte> expected(compressor.max_payload_bytes(segment.count));
    expected.resize(residual.empty()
                        ? compressor.encode(values, context, workspace, expected)
                        : compressor.encode_with_feedback(
                              values, context, workspace,
                              std::span(expected_residual).subspan(segment.begin, segment.count),
                              expected));
    CAPTURE(segment.slice, segment.begin, step);
    CHECK(std::ranges::equal(encoder->of(segment), expected));
    // The host's gradient is not read in place of the device's.
    CHECK(gradient[segment.begin] == 777.0f);
  }

  void check_plain(const codec::Segment& segment) {
    const bool adds = plain_feedback && !residual.empty();
    bool equal = true;
    for (std::size_t i = segment.begin; i < segment.begin + segment.count; ++i) {
      const float expected = adds ? expected_residual[i] + on_device[i] : on_device[i];
      if (adds) expected_residual[i] = 0;
      equal = equal && gradient[i] == expected;
    }
    CHECK(equal);
  }
};

}  // namespace

TEST_CASE("a gradient in device memory becomes the host's payloads") {
  const bool feedback = GENERATE(false, true), plain = GENERATE(false, true);
  for (const test::DeviceCase& c : test::device_cases()) {
    if (feedback && c.name.find("signsgd") != std::string::npos) continue;  // refused
    CAPTURE(c.name, feedback, plain);
    Rehearsal rehearsal(*c.compressor, feedback, plain);
    for (StepId step = 1; step <= 3; ++step) rehearsal.step(step);
    rehearsal.encoder->return_residual();
    CHECK(rehearsal.residual == rehearsal.expected_residual);
    // The host changes it, as a step without the device does.
    for (float& value : rehearsal.residual) value *= 0.5f;
    rehearsal.expected_residual = rehearsal.residual;
    rehearsal.step(4);
    rehearsal.encoder->return_residual();
    CHECK(rehearsal.residual == rehearsal.expected_residual);
  }
}

TEST_CASE(
    "a gradient on a device that is not finite is found, and is on the host to be looked at") {
  const auto [name, place] = GENERATE(values<std::pair<std::string, std::size_t>>(
      {{"a segment that is encoded", 20000}, {"a raw segment", 17400}, {"an own chunk", 1500}}));
  const bool feedback = GENERATE(false, true);
  CAPTURE(name, feedback);
  const auto compressor = codec::make_compressor("qsgd", {});
  Rehearsal rehearsal(*compressor, feedback, true);
  rehearsal.step(1);
  const auto values = gradient_of(2);
  std::ranges::copy(values, rehearsal.on_device.begin());
  rehearsal.on_device[place] = std::numeric_limits<float>::quiet_NaN();
  rehearsal.encoder->begin(kSeed, 2);
  int refused = 0;
  for (std::size_t b = 0; b < rehearsal.buckets.size(); ++b) {
    rehearsal.encoder->start(b);
    if (rehearsal.encoder->finish(b)) continue;
    ++refused;
    const std::size_t begin = rehearsal.buckets[b].begin, end = rehearsal.buckets[b].end;
    REQUIRE((begin <= place && place < end));
    for (std::size_t i = begin; i < end; ++i)
      REQUIRE(
          (i == place ? std::isnan(rehearsal.gradient[i]) : rehearsal.gradient[i] == values[i]));
    test::refusal(Kind::diverged, [&] { rehearsal.encoder->refuse(b); });
  }
  CHECK(refused == 1);
}

TEST_CASE("values beyond a format are refused in the compressor's words") {
  const auto compressor = codec::make_compressor("fp16", {});
  Rehearsal rehearsal(*compressor, false, false);
  std::ranges::fill(rehearsal.on_device, 1.0f);
  rehearsal.on_device[50000] = 1e6f;
  rehearsal.encoder->begin(kSeed, 1);
  rehearsal.encoder->start(0);
  CHECK_FALSE(rehearsal.encoder->finish(0));
  CHECK(rehearsal.gradient[50000] == 1e6f);
  const auto values =
      std::span<const float>(rehearsal.on_device).subspan(rehearsal.buckets[0].begin);
  std::vector<std::byte> payload(compressor->max_payload_bytes(values.size()));
  const auto expected = test::refusal(Kind::diverged, [&] {
    static_cast<void>(compressor->encode(values, {}, rehearsal.workspace, payload));
  });
  CHECK(test::refusal(Kind::diverged, [&] { rehearsal.encoder->refuse(0); }) == expected);
}

TEST_CASE("an event passes when what was queued before it is done") {
  const auto queue = make_late_emulated_queue();
  std::vector<float> values(1 << 20, 1.0f);
  const Array<float> on_device(*queue, values);
  const PinnedArray<float> back(*queue, values.size());
  const auto event = queue->make_event();
  CHECK(event->passed());
  queue->run(AddValues{on_device.data(), 2.0f, on_device.data(), values.size(), nullptr});
  queue->download(back.span().data(), on_device.data(), values.size() * sizeof(float));
  event->record();
  while (!event->passed()) {
  }
  CHECK(std::ranges::all_of(back.span(), [](float value) { return value == 3.0f; }));
}
