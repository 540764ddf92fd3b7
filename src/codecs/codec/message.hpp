// SPDX-License-Identifier: Apache-2.0
// A message: one frame that carries several segments of a flat buffer, each compressed or raw.
//
// Layout: header (frame.hpp), then the segments in order. A compressed segment is its payload's
// length (uint32) and the payload; a raw one is its values as float32, or the payload of int8,
// whose length follows from their number. Both sides know the segments from the plan, so nothing
// else is sent, unless a sender may leave segments out: then the list of those that it sends comes
// first. See FORMAT.md.

#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "codec/compressor.hpp"

namespace eqt::codec {

/// A range of values that is encoded separately.
struct Segment {
  std::uint32_t slice = 0;        // names the random stream
  std::uint64_t first_index = 0;  // of the range in its slice; the random counter starts there
  std::size_t begin = 0;          // in the flat buffer [floats]
  std::size_t count = 0;          // [floats]
  bool compressed = true;         // false: sent as float32 or int8
  std::size_t rows = 0;           // see EncodeContext
  bool int8 = false;              // sent as int8 if not compressed; its steps are of kInt8Bucket
};

/// Values that share a step in a raw segment of int8.
inline constexpr std::size_t kInt8Bucket = 8192;

/// Payloads of segments that were encoded before, where their values are.
class Payloads {
 public:
  virtual ~Payloads() = default;
  /// Returns what the compressor would write of this compressed segment, with error feedback if
  /// there is any. It is valid until the values are encoded again.
  virtual std::span<const std::byte> of(const Segment& segment) const = 0;
};

/// Says which message of a run it is. A frame carries it, and it is checked on receipt.
struct MessageId {
  StepId step = 0;
  std::uint32_t index = 0;  // of the message in the step
};

/// Who encodes the message, and parameters of encoding.
struct MessageContext {
  std::uint64_t run_seed = 0;
  MessageId id = {};                       // its step also names the random stream
  std::uint32_t rank = 0;                  // of the encoder: names the random stream
  std::optional<double> density = {};      // see EncodeContext
  const Strata* strata = nullptr;          // see EncodeContext
  std::span<const float> scales = {};      // shared scale per segment, or empty
  std::span<const float> own_scales = {};  // this rank's own scale per segment, or empty
  // Segments may have values that are rounded already, see EncodeContext. Empty: none has.
  std::span<const std::optional<RoundedRows>> rounded = {};
  // Error feedback while encoding: compressed segments, and raw ones of int8, send values +
  // residual, and the residual, a flat buffer, keeps the error. Empty: no error feedback.
  std::span<float> residual = {};
  // These are the payloads of the compressed segments, whose values are then not read. Null: they
  // are encoded.
  const Payloads* payloads = nullptr;
  // A segment whose element is 0 is left out. Empty: no segment is, and the message has no list of
  // them.
  std::span<const std::uint8_t> present = {};
};

/// Bytes of the list of the segments that are in a message.
constexpr std::size_t segment_list_bytes(std::size_t segments) { return (segments + 7) / 8; }

/// Returns the bytes of a raw segment in a message, whatever its values are.
/// @pre !segment.compressed
std::size_t raw_segment_bytes(const Segment& segment);

/// Upper bound of MessageCodec::encode()'s result without MessageContext::present, which adds
/// segment_list_bytes() [bytes].
std::size_t max_message_bytes(const Compressor& compressor, std::span<const Segment> segments);

/// Encodes and decodes the messages of the same segments. Keeps references to all that it is made
/// of, and is cheap to make. Decoding throws Error{wire} on any malformed message.
class MessageCodec {
 public:
  MessageCodec(const Compressor& compressor, std::span<const Segment> segments,
               Workspace& workspace)
      : compressor_(compressor), segments_(segments), workspace_(workspace) {}

  /// Encodes the segments of the flat buffer `values` into `frame`.
  /// @pre frame.size() >= max_message_bytes(compressor, segments)
  /// @return bytes written
  [[nodiscard]] std::size_t encode(std::span<const float> values, const MessageContext& context,
                                   std::span<std::byte> frame) const;

  /// flat[i] += scale * decoded[i] for every value of the segments.
  void decode_add(std::span<const std::byte> frame, MessageId id, float scale,
                  std::span<float> flat) const;
  /// Does what decode_add() does after all values were set to 0: each segment is set to 0 right
  /// before it is decoded, while it is in the caches.
  void decode(std::span<const std::byte> frame, MessageId id, float scale,
              std::span<float> flat) const;
  /// decode_add() for a message whose sender may have left segments out; their values stay as they
  /// are.
  void decode_listed_add(std::span<const std::byte> frame, MessageId id, float scale,
                         std::span<float> flat) const;
  /// decode_add() of several messages in order, with the same result. Some codecs do it in one pass
  /// over `flat`.
  void decode_add_all(std::span<const std::span<const std::byte>> frames, MessageId id, float scale,
                      std::span<float> flat) const;
  /// flat[i] = 0 for every value that a sparse compressor's message contains in a compressed
  /// segment.
  void zero_sent(std::span<const std::byte> frame, MessageId id, std::span<float> flat) const;

 private:
  template <typename Visit>
  void for_each_segment(std::span<const std::byte> frame, MessageId id, const Visit& visit) const;
  std::size_t encode_segment(std::size_t i, std::span<const float> values,
                             const MessageContext& context, std::span<std::byte> space) const;
  void decode_payload_add(const Segment& segment, std::span<const std::byte> payload, float scale,
                          std::span<float> flat) const;

  const Compressor& compressor_;
  const std::span<const Segment> segments_;
  Workspace& workspace_;
};

/// Writes a message segment by segment, for callers that already have the payloads. The result has
/// the bytes of MessageCodec::encode().
class MessageWriter {
 public:
  /// @pre frame has room for max_message_bytes() of the segments that follow
  explicit MessageWriter(std::span<std::byte> frame);
  /// Writes the list of segments that are in the message, before them, if some may be left out.
  /// @param present by segment; not empty
  void list(std::span<const std::uint8_t> present);
  /// Returns where to write the next compressed segment's payload; its length is passed afterwards.
  std::span<std::byte> space() const;
  void wrote(std::size_t bytes);
  /// Writes the next compressed segment.
  void encoded(std::span<const std::byte> payload);
  /// Writes the next raw segment of float32. @throws Error{diverged} if a value is NaN or infinite
  void raw(std::span<const float> values);
  /// Returns where to write the next raw segment's payload of int8, whose length is passed
  /// afterwards, but not written.
  std::span<std::byte> raw_space() const;
  void wrote_raw(std::size_t bytes);
  /// Writes the header. @return bytes of the message
  [[nodiscard]] std::size_t finish(const Compressor& compressor, std::span<const Segment> segments,
                                   MessageId id);

 private:
  std::span<std::byte> frame_;
  std::size_t at_;
  std::uint8_t flags_ = 0;
};

/// Reads a message segment by segment. Keeps a reference to the compressor.
class MessageReader {
 public:
  /// Checks the header. @throws Error{wire}
  MessageReader(const Compressor& compressor, std::span<const Segment> segments,
                std::span<const std::byte> frame, MessageId id);
  /// The bytes of the next segment. @throws Error{wire} if the message is too short
  std::span<const std::byte> next(const Segment& segment);
  /// @throws Error{wire} if the message is too long
  void finish() const;

 private:
  const Compressor& compressor_;
  std::span<const std::byte> rest_;
};

}  // namespace eqt::codec
