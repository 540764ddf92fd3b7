// SPDX-License-Identifier: Apache-2.0
#include "support/hostile_bytes.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <exception>

#include "core/error.hpp"

namespace eqt::test {
namespace {

constexpr codec::MessageId kHostileMessage = {.step = kHostileStep};

/// Runs decode(sum) twice on zeros and checks the results.
template <typename Decode>
DecodeReport check_decoding(bool finite, std::size_t count, Decode decode) {
  std::vector<float> first(count, 0.0f), second(count, 0.0f);
  try {
    decode(std::span<float>(first));
  } catch (const Error& error) {
    if (error.kind() == Kind::wire) return {DecodeResult::refused, error.what()};
    return {DecodeResult::broken,
            std::string("an error that is not of kind wire: ") + error.what()};
  } catch (const std::exception& error) {
    return {DecodeResult::broken, std::string("a foreign exception: ") + error.what()};
  }
  try {
    decode(std::span<float>(second));
  } catch (const std::exception& error) {
    return {DecodeResult::broken, std::string("decoded once, refused then: ") + error.what()};
  }
  if (count > 0 && std::memcmp(first.data(), second.data(), count * sizeof(float)) != 0)
    return {DecodeResult::broken, "two results for the same bytes"};
  const auto bad = [](float v) { return !std::isfinite(v); };
  if (finite && std::any_of(first.begin(), first.end(), bad))
    return {DecodeResult::broken, "a decoded value that is not finite"};
  return {DecodeResult::decoded, {}};
}

}  // namespace

DecodeReport try_payload(const Decoder& decoder, std::span<const std::byte> payload,
                         std::size_t count, Workspace& workspace) {
  const std::vector<std::byte> exact(payload.begin(), payload.end());
  return check_decoding(decoder.finite, count, [&](std::span<float> sum) {
    decoder.compressor->decode_add(exact, 1.0f, workspace, sum);
  });
}

const std::vector<codec::Segment>& hostile_segments() {
  static const std::vector<codec::Segment> segments = {
      {.slice = 0, .begin = 0, .count = 70},
      {.slice = 1, .begin = 70, .count = 5, .compressed = false},
      {.slice = 2, .begin = 75, .count = 40, .rows = 8}};
  return segments;
}

std::vector<std::byte> frame_of(const Decoder& decoder, std::span<const float> values) {
  Workspace workspace;
  const codec::Compressor& compressor = *decoder.compressor;
  std::vector<std::byte> frame(codec::max_message_bytes(compressor, hostile_segments()));
  frame.resize(codec::MessageCodec(compressor, hostile_segments(), workspace)
                   .encode(values, {.id = kHostileMessage}, frame));
  return frame;
}

DecodeReport try_frame(const Decoder& decoder, std::span<const std::byte> frame,
                       Workspace& workspace) {
  const std::vector<std::byte> exact(frame.begin(), frame.end());
  const codec::Compressor& compressor = *decoder.compressor;
  const codec::MessageCodec messages(compressor, hostile_segments(), workspace);
  const DecodeReport added = check_decoding(
      decoder.finite, kHostileValues,
      [&](std::span<float> flat) { messages.decode_add(exact, kHostileMessage, 1.0f, flat); });
  if (added.result == DecodeResult::broken || compressor.id() != codec::CodecId::dgc) return added;
  const DecodeReport masked = check_decoding(true, kHostileValues, [&](std::span<float> flat) {
    messages.zero_sent(exact, kHostileMessage, flat);
  });
  return masked.result == DecodeResult::broken ? masked : added;
}

}  // namespace eqt::test
