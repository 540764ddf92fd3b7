// SPDX-License-Identifier: Apache-2.0
#include "codec/message.hpp"

#include <algorithm>

#include "codec/bytes.hpp"
#include "codec/catalogue.hpp"
#include "codec/frame.hpp"
#include "codec/sparse/sparse.hpp"
#include "core/error.hpp"

namespace eqt::codec {
namespace {

constexpr std::size_t kLengthBytes = 4;
// Slots that the codecs do not use, because they run while these are in use.
constexpr ScratchArray<std::span<const std::byte>> kUnreadFrames{Workspace::kSlots - 2};
constexpr ScratchArray<std::span<const std::byte>> kFramePayloads{Workspace::kSlots - 1};

/// Raw segments are sent as the payload of the pass-through codec.
const Compressor& raw_codec() {
  static const auto codec = make_compressor(kNone);
  return *codec;
}

std::size_t total_values(std::span<const Segment> segments) {
  std::size_t total = 0;
  for (const Segment& segment : segments) total += segment.count;
  return total;
}

WireHeader expected_header(const Compressor& compressor, std::span<const Segment> segments,
                           StepId step, std::uint32_t index) {
  return {.codec = compressor.id(),
          .format_version = compressor.format_version(),
          .step = step,
          .count = total_values(segments),
          .index = index};
}

/// Takes the bytes of one segment off the front of `rest`.
std::span<const std::byte> take_segment(const Compressor& compressor, const Segment& segment,
                                        std::span<const std::byte>& rest) {
  std::size_t bytes = segment.count * sizeof(float);
  if (segment.compressed) {
    if (rest.size() < kLengthBytes) {
      fail(Kind::wire, "message: expected the length of slice {}, found {} bytes", segment.slice,
           rest.size());
    }
    bytes = load<std::uint32_t>(rest.data());
    rest = rest.subspan(kLengthBytes);
  }
  if (rest.size() < bytes) {
    fail(Kind::wire, "message: expected {} bytes of slice {}, found {}", bytes, segment.slice,
         rest.size());
  }
  const auto payload = rest.first(bytes);
  if (segment.compressed) compressor.require_payload_of(segment.slice, payload);
  rest = rest.subspan(bytes);
  return payload;
}

bool is_listed(std::span<const std::byte> list, std::size_t segment) {
  return (std::to_integer<unsigned>(list[segment / 8]) >> segment % 8 & 1u) != 0;
}

/// Takes the list of segments off the front of `rest`.
std::span<const std::byte> take_list(std::size_t segments, std::span<const std::byte>& rest) {
  const std::size_t bytes = segment_list_bytes(segments);
  if (rest.size() < bytes)
    fail(Kind::wire, "message: expected a list of segments of {} bytes, found {}", bytes,
         rest.size());
  const auto list = rest.first(bytes);
  rest = rest.subspan(bytes);
  for (std::size_t i = segments; i < 8 * bytes; ++i)
    if (is_listed(list, i))
      fail(Kind::wire, "message: expected a list of {} segments, found segment {}", segments, i);
  if (std::ranges::all_of(list, [](std::byte b) { return b == std::byte{}; }))
    fail(Kind::wire, "message: expected a list of at least 1 segment, found 0");
  return list;
}

/// Calls visit(segment, payload) for each segment of a checked frame.
template <typename Visit>
void for_each_segment(const Compressor& compressor, std::span<const Segment> segments,
                      std::span<const std::byte> frame, StepId step, std::uint32_t index,
                      Visit&& visit) {
  MessageReader reader(compressor, segments, frame, step, index);
  for (const Segment& segment : segments) visit(segment, reader.next(segment));
  reader.finish();
}

}  // namespace

std::size_t max_message_bytes(const Compressor& compressor, std::span<const Segment> segments) {
  std::size_t bytes = kFrameHeaderBytes;
  for (const Segment& segment : segments) {
    bytes += segment.compressed ? kLengthBytes + compressor.max_payload_bytes(segment.count)
                                : segment.count * sizeof(float);
  }
  return bytes;
}

std::size_t encode_message(const Compressor& compressor, std::span<const Segment> segments,
                           std::span<const float> values, const MessageContext& context,
                           Workspace& workspace, std::span<std::byte> frame) {
  MessageWriter writer(frame);
  if (!context.present.empty()) writer.list(context.present);
  for (std::size_t i = 0; i < segments.size(); ++i) {
    if (!context.present.empty() && context.present[i] == 0) continue;
    const Segment& segment = segments[i];
    const auto own = values.subspan(segment.begin, segment.count);
    if (!segment.compressed) {
      writer.raw(own);
      continue;
    }
    if (context.payloads != nullptr) {
      writer.encoded(context.payloads->of(segment));
      continue;
    }
    EncodeContext encode_context{
        .key = {context.run_seed, context.step, context.rank, segment.slice},
        .first_index = segment.first_index,
        .shared_scale = {},
        .own_scale = {},
        .density = context.density,
        .rows = segment.rows};
    if (!context.scales.empty()) encode_context.shared_scale = context.scales[i];
    if (!context.rounded.empty()) encode_context.rounded = context.rounded[i];
    if (!context.own_scales.empty()) encode_context.own_scale = context.own_scales[i];
    writer.wrote(context.residual.empty()
                     ? compressor.encode(own, encode_context, workspace, writer.space())
                     : compressor.encode_with_feedback(
                           own, encode_context, workspace,
                           context.residual.subspan(segment.begin, segment.count), writer.space()));
  }
  return writer.finish(compressor, segments, context.step, context.index);
}

MessageWriter::MessageWriter(std::span<std::byte> frame) : frame_(frame), at_(kFrameHeaderBytes) {}

void MessageWriter::list(std::span<const std::uint8_t> present) {
  if (std::ranges::all_of(present, [](std::uint8_t p) { return p == 0; })) {
    flags_ = kNothingSent;
    return;
  }
  flags_ = kSomeSegments;
  const auto bits = frame_.subspan(at_, segment_list_bytes(present.size()));
  std::ranges::fill(bits, std::byte{});
  for (std::size_t i = 0; i < present.size(); ++i)
    if (present[i] != 0) bits[i / 8] |= std::byte{1} << i % 8;
  at_ += bits.size();
}

std::span<std::byte> MessageWriter::space() const { return frame_.subspan(at_ + kLengthBytes); }

void MessageWriter::wrote(std::size_t bytes) {
  store(&frame_[at_], static_cast<std::uint32_t>(bytes));
  at_ += kLengthBytes + bytes;
}

void MessageWriter::encoded(std::span<const std::byte> payload) {
  EQT_CHECK(payload.size() <= space().size(), "a payload of {} bytes", payload.size());
  std::ranges::copy(payload, space().begin());
  wrote(payload.size());
}

void MessageWriter::raw(std::span<const float> values) {
  Workspace unused;
  at_ += raw_codec().encode(values, {}, unused, frame_.subspan(at_));
}

std::size_t MessageWriter::finish(const Compressor& compressor, std::span<const Segment> segments,
                                  StepId step, std::uint32_t index) {
  EQT_CHECK(at_ - kFrameHeaderBytes <= UINT32_MAX, "a message of {} bytes", at_);
  WireHeader header = expected_header(compressor, segments, step, index);
  header.flags = flags_;
  header.payload_bytes = static_cast<std::uint32_t>(at_ - kFrameHeaderBytes);
  write_header(header, frame_);
  return at_;
}

MessageReader::MessageReader(const Compressor& compressor, std::span<const Segment> segments,
                             std::span<const std::byte> frame, StepId step, std::uint32_t index)
    : compressor_(compressor),
      rest_(open_frame(frame, expected_header(compressor, segments, step, index))) {}

std::span<const std::byte> MessageReader::next(const Segment& segment) {
  return take_segment(compressor_, segment, rest_);
}

void MessageReader::finish() const {
  if (!rest_.empty())
    fail(Kind::wire, "message: expected its end, found {} more bytes", rest_.size());
}

namespace {

/// decode_message_add() after prepare(the values of a segment).
template <typename Prepare>
void decode_segments(const Compressor& compressor, std::span<const Segment> segments,
                     std::span<const std::byte> frame, StepId step, std::uint32_t index,
                     float scale, Workspace& workspace, std::span<float> flat,
                     const Prepare& prepare) {
  for_each_segment(compressor, segments, frame, step, index,
                   [&](const Segment& segment, std::span<const std::byte> payload) {
                     const Compressor& codec = segment.compressed ? compressor : raw_codec();
                     const auto values = flat.subspan(segment.begin, segment.count);
                     prepare(values);
                     codec.decode_add(payload, scale, workspace, values);
                   });
}

}  // namespace

void decode_message_add(const Compressor& compressor, std::span<const Segment> segments,
                        std::span<const std::byte> frame, StepId step, std::uint32_t index,
                        float scale, Workspace& workspace, std::span<float> flat) {
  decode_segments(compressor, segments, frame, step, index, scale, workspace, flat,
                  [](std::span<float>) {});
}

void decode_message(const Compressor& compressor, std::span<const Segment> segments,
                    std::span<const std::byte> frame, StepId step, std::uint32_t index, float scale,
                    Workspace& workspace, std::span<float> flat) {
  decode_segments(compressor, segments, frame, step, index, scale, workspace, flat,
                  [](std::span<float> values) { std::ranges::fill(values, 0.0f); });
}

void decode_listed_message_add(const Compressor& compressor, std::span<const Segment> segments,
                               std::span<const std::byte> frame, StepId step, std::uint32_t index,
                               float scale, Workspace& workspace, std::span<float> flat) {
  WireHeader expected = expected_header(compressor, segments, step, index);
  const bool sent = frame.size() != kFrameHeaderBytes;
  expected.flags = sent ? kSomeSegments : kNothingSent;
  auto rest = open_frame(frame, expected);
  if (!sent) return;
  const auto list = take_list(segments.size(), rest);
  for (std::size_t i = 0; i < segments.size(); ++i) {
    if (!is_listed(list, i)) continue;
    const Segment& segment = segments[i];
    const Compressor& codec = segment.compressed ? compressor : raw_codec();
    codec.decode_add(take_segment(compressor, segment, rest), scale, workspace,
                     flat.subspan(segment.begin, segment.count));
  }
  if (!rest.empty())
    fail(Kind::wire, "message: expected its end, found {} more bytes", rest.size());
}

void decode_messages_add(const Compressor& compressor, std::span<const Segment> segments,
                         std::span<const std::span<const std::byte>> frames, StepId step,
                         std::uint32_t index, float scale, Workspace& workspace,
                         std::span<float> flat) {
  const auto rest = workspace.array(kUnreadFrames, frames.size());
  const auto payloads = workspace.array(kFramePayloads, frames.size());
  const WireHeader expected = expected_header(compressor, segments, step, index);
  for (std::size_t k = 0; k < frames.size(); ++k) rest[k] = open_frame(frames[k], expected);
  for (const Segment& segment : segments) {
    for (std::size_t k = 0; k < frames.size(); ++k)
      payloads[k] = take_segment(compressor, segment, rest[k]);
    const Compressor& codec = segment.compressed ? compressor : raw_codec();
    codec.decode_add_all(payloads, scale, workspace, flat.subspan(segment.begin, segment.count));
  }
  for (const auto left : rest) {
    if (!left.empty())
      fail(Kind::wire, "message: expected its end, found {} more bytes", left.size());
  }
}

void zero_sent_in_message(const Compressor& compressor, std::span<const Segment> segments,
                          std::span<const std::byte> frame, StepId step, std::uint32_t index,
                          std::span<float> flat) {
  for_each_segment(compressor, segments, frame, step, index,
                   [&](const Segment& segment, std::span<const std::byte> payload) {
                     if (segment.compressed) {
                       zero_sent(payload, flat.subspan(segment.begin, segment.count));
                     }
                   });
}

}  // namespace eqt::codec
