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

const Compressor& int8_codec() {
  static const auto codec = make_compressor(kInt8, {.bucket_size = kInt8Bucket});
  return *codec;
}

const Compressor& codec_of(const Compressor& compressor, const Segment& segment) {
  if (segment.compressed) return compressor;
  return segment.int8 ? int8_codec() : raw_codec();
}

std::size_t total_values(std::span<const Segment> segments) {
  std::size_t total = 0;
  for (const Segment& segment : segments) total += segment.count;
  return total;
}

WireHeader expected_header(const Compressor& compressor, std::span<const Segment> segments,
                           MessageId id) {
  return {.codec = compressor.id(),
          .format_version = compressor.format_version(),
          .step = id.step,
          .count = total_values(segments),
          .index = id.index};
}

/// Takes the bytes of one segment off the front of `rest`.
std::span<const std::byte> take_segment(const Compressor& compressor, const Segment& segment,
                                        std::span<const std::byte>& rest) {
  std::size_t bytes = 0;
  if (!segment.compressed) {
    bytes = raw_segment_bytes(segment);
  } else {
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

void require_end(std::span<const std::byte> rest) {
  if (!rest.empty())
    fail(Kind::wire, "message: expected its end, found {} more bytes", rest.size());
}

}  // namespace

std::size_t raw_segment_bytes(const Segment& segment) {
  return segment.int8 ? int8_codec().max_payload_bytes(segment.count)
                      : segment.count * sizeof(float);
}

std::size_t max_message_bytes(const Compressor& compressor, std::span<const Segment> segments) {
  std::size_t bytes = kFrameHeaderBytes;
  for (const Segment& segment : segments) {
    bytes += segment.compressed ? kLengthBytes + compressor.max_payload_bytes(segment.count)
                                : raw_segment_bytes(segment);
  }
  return bytes;
}

std::size_t MessageCodec::encode(std::span<const float> values, const MessageContext& context,
                                 std::span<std::byte> frame) const {
  MessageWriter writer(frame);
  if (!context.present.empty()) writer.list(context.present);
  for (std::size_t i = 0; i < segments_.size(); ++i) {
    if (!context.present.empty() && context.present[i] == 0) continue;
    const Segment& segment = segments_[i];
    if (!segment.compressed && segment.int8) {
      writer.wrote_raw(encode_segment(i, values, context, writer.raw_space()));
    } else if (!segment.compressed) {
      writer.raw(values.subspan(segment.begin, segment.count));
    } else if (context.payloads != nullptr) {
      writer.encoded(context.payloads->of(segment));
    } else {
      writer.wrote(encode_segment(i, values, context, writer.space()));
    }
  }
  return writer.finish(compressor_, segments_, context.id);
}

std::size_t MessageCodec::encode_segment(std::size_t i, std::span<const float> values,
                                         const MessageContext& context,
                                         std::span<std::byte> space) const {
  const Segment& segment = segments_[i];
  EncodeContext encode{.key = {context.run_seed, context.id.step, context.rank, segment.slice},
                       .first_index = segment.first_index,
                       .shared_scale = {},
                       .own_scale = {},
                       .density = context.density,
                       .rows = segment.rows,
                       .strata = context.strata};
  if (!context.scales.empty()) encode.shared_scale = context.scales[i];
  if (!context.rounded.empty()) encode.rounded = context.rounded[i];
  if (!context.own_scales.empty()) encode.own_scale = context.own_scales[i];
  const auto own = values.subspan(segment.begin, segment.count);
  const Compressor& codec = codec_of(compressor_, segment);
  if (context.residual.empty()) return codec.encode(own, encode, workspace_, space);
  return codec.encode_with_feedback(own, encode, workspace_,
                                    context.residual.subspan(segment.begin, segment.count), space);
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

std::span<std::byte> MessageWriter::raw_space() const { return frame_.subspan(at_); }

void MessageWriter::wrote_raw(std::size_t bytes) { at_ += bytes; }

void MessageWriter::raw(std::span<const float> values) {
  Workspace unused;
  at_ += raw_codec().encode(values, {}, unused, frame_.subspan(at_));
}

std::size_t MessageWriter::finish(const Compressor& compressor, std::span<const Segment> segments,
                                  MessageId id) {
  EQT_CHECK(at_ - kFrameHeaderBytes <= UINT32_MAX, "a message of {} bytes", at_);
  WireHeader header = expected_header(compressor, segments, id);
  header.flags = flags_;
  header.payload_bytes = static_cast<std::uint32_t>(at_ - kFrameHeaderBytes);
  write_header(header, frame_);
  return at_;
}

MessageReader::MessageReader(const Compressor& compressor, std::span<const Segment> segments,
                             std::span<const std::byte> frame, MessageId id)
    : compressor_(compressor),
      rest_(open_frame(frame, expected_header(compressor, segments, id))) {}

std::span<const std::byte> MessageReader::next(const Segment& segment) {
  return take_segment(compressor_, segment, rest_);
}

void MessageReader::finish() const { require_end(rest_); }

/// Calls visit(segment, payload) for each segment of a checked frame.
template <typename Visit>
void MessageCodec::for_each_segment(std::span<const std::byte> frame, MessageId id,
                                    const Visit& visit) const {
  MessageReader reader(compressor_, segments_, frame, id);
  for (const Segment& segment : segments_) visit(segment, reader.next(segment));
  reader.finish();
}

void MessageCodec::decode_payload_add(const Segment& segment, std::span<const std::byte> payload,
                                      float scale, std::span<float> flat) const {
  codec_of(compressor_, segment)
      .decode_add(payload, scale, workspace_, flat.subspan(segment.begin, segment.count));
}

void MessageCodec::decode_add(std::span<const std::byte> frame, MessageId id, float scale,
                              std::span<float> flat) const {
  for_each_segment(frame, id, [&](const Segment& segment, std::span<const std::byte> payload) {
    decode_payload_add(segment, payload, scale, flat);
  });
}

void MessageCodec::decode(std::span<const std::byte> frame, MessageId id, float scale,
                          std::span<float> flat) const {
  for_each_segment(frame, id, [&](const Segment& segment, std::span<const std::byte> payload) {
    std::ranges::fill(flat.subspan(segment.begin, segment.count), 0.0f);
    decode_payload_add(segment, payload, scale, flat);
  });
}

void MessageCodec::decode_listed_add(std::span<const std::byte> frame, MessageId id, float scale,
                                     std::span<float> flat) const {
  WireHeader expected = expected_header(compressor_, segments_, id);
  const bool sent = frame.size() != kFrameHeaderBytes;
  expected.flags = sent ? kSomeSegments : kNothingSent;
  auto rest = open_frame(frame, expected);
  if (!sent) return;
  const auto list = take_list(segments_.size(), rest);
  for (std::size_t i = 0; i < segments_.size(); ++i) {
    if (!is_listed(list, i)) continue;
    const Segment& segment = segments_[i];
    decode_payload_add(segment, take_segment(compressor_, segment, rest), scale, flat);
  }
  require_end(rest);
}

void MessageCodec::decode_add_all(std::span<const std::span<const std::byte>> frames, MessageId id,
                                  float scale, std::span<float> flat) const {
  const auto rest = workspace_.array(kUnreadFrames, frames.size());
  const auto payloads = workspace_.array(kFramePayloads, frames.size());
  const WireHeader expected = expected_header(compressor_, segments_, id);
  for (std::size_t k = 0; k < frames.size(); ++k) rest[k] = open_frame(frames[k], expected);
  for (const Segment& segment : segments_) {
    for (std::size_t k = 0; k < frames.size(); ++k)
      payloads[k] = take_segment(compressor_, segment, rest[k]);
    codec_of(compressor_, segment)
        .decode_add_all(payloads, scale, workspace_, flat.subspan(segment.begin, segment.count));
  }
  for (const auto left : rest) require_end(left);
}

void MessageCodec::zero_sent(std::span<const std::byte> frame, MessageId id,
                             std::span<float> flat) const {
  for_each_segment(frame, id, [&](const Segment& segment, std::span<const std::byte> payload) {
    if (segment.compressed) codec::zero_sent(payload, flat.subspan(segment.begin, segment.count));
  });
}

}  // namespace eqt::codec
