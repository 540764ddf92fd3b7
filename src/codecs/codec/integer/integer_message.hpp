// SPDX-License-Identifier: Apache-2.0
// The three messages of a mean in the code domain: scales, codes, and sums of codes.
//
// Layout: header (frame.hpp), then scales as float32, or the segments in order: a compressed one
// packed (integer_kernels.hpp), a raw one as float32. Both sides know the segments and their
// lengths from the plan, so nothing else is sent. See FORMAT.md.

#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "codec/integer/integer_codec.hpp"
#include "codec/message.hpp"

namespace eqt::codec {

/// A range of values, and the index of its scales among those of the fusion bucket.
struct ScaledSegment {
  Segment segment;
  std::size_t scale = 0;  // index of the first bucket's scale
  std::size_t offset =
      0;  // of the segment's first value in that bucket: 0 unless buckets are segments
};

/// Scales of one fusion bucket; ScaledSegment::scale is an index into them.
struct SharedScales {
  std::span<const float> own;
  std::span<const float> shared;
};

/// Builds and reads the messages of one codec among `ranks` ranks. Thread-safe.
class IntegerMessages {
 public:
  /// @throws Error{usage} if sums of `ranks` codes need more than 16 bits
  IntegerMessages(std::unique_ptr<IntegerCodec> codec, std::uint32_t ranks);

  const IntegerCodec& codec() const noexcept { return *codec_; }
  int code_bits() const noexcept;
  int sum_bits() const noexcept;

  /// Number of scales of a segment: one per bucket, none if it is sent raw.
  std::size_t scale_count(const Segment& segment) const noexcept;
  std::size_t scales_bytes(std::size_t scales) const noexcept;
  std::size_t codes_bytes(std::span<const ScaledSegment> segments) const noexcept;
  std::size_t sums_bytes(std::span<const ScaledSegment> segments) const noexcept;

  /// own_scale() of every bucket of whole segments.
  /// @throws Error{diverged} for values that are not finite
  void find_scales(std::span<const ScaledSegment> segments, std::span<const float> flat,
                   std::span<float> scales) const;
  /// @pre frame.size() == scales_bytes(scales.size()), and correspondingly below
  void write_scales(std::span<const float> scales, MessageId id, std::span<std::byte> frame) const;
  /// scales = max(scales, those of the message).
  /// @throws Error{wire} on any malformed message, and so do the functions below
  void raise_scales(std::span<const std::byte> frame, MessageId id, std::span<float> scales) const;

  /// Quantises flat values. With a residual, compressed segments read their values from it and
  /// leave the error in it.
  /// @param context seed, id, rank and strata; `residual` if there is one
  void write_codes(std::span<const ScaledSegment> segments, std::span<const float> flat,
                   const SharedScales& scales, const MessageContext& context,
                   std::span<std::byte> frame) const;
  /// flat -= the values of this message's codes; raw values become 0.
  void subtract_codes(std::span<const std::byte> frame, std::span<const ScaledSegment> segments,
                      std::span<const float> shared, MessageId id, std::span<float> flat) const;

  /// Checks header and length; codes are checked when they are added.
  void check_codes(std::span<const std::byte> frame, std::span<const ScaledSegment> segments,
                   MessageId id) const;
  /// Sums the codes of all ranks' messages, in the code domain; raw values become their mean, added
  /// in the order of `frames`.
  /// @pre frames.size() is the number of ranks
  void add_codes(std::span<const std::span<const std::byte>> frames,
                 std::span<const ScaledSegment> segments, MessageId id,
                 std::span<std::byte> sums) const;
  /// flat = the mean.
  void read_sums(std::span<const std::byte> frame, std::span<const ScaledSegment> segments,
                 std::span<const float> shared, MessageId id, std::span<float> flat) const;

 private:
  std::size_t message_bytes(std::span<const ScaledSegment> segments,
                            std::uint32_t limit) const noexcept;
  std::span<const std::byte> open(std::span<const std::byte> frame, MessageId id,
                                  std::uint64_t count, std::size_t bytes) const;
  void seal(MessageId id, std::uint64_t count, std::span<std::byte> frame) const;
  void write_segment(const ScaledSegment& scaled, std::span<const float> values,
                     std::span<float> residual, const SharedScales& scales, const RandomKey& key,
                     const Strata* strata, std::span<std::byte> to) const;
  template <typename Sum>
  void add_segment(std::span<const std::span<const std::byte>> frames, std::size_t at,
                   std::size_t count, std::span<std::byte> to) const;
  template <typename Sum>
  void read_segment(std::span<const std::byte> from, const ScaledSegment& scaled,
                    std::span<const float> shared, std::span<float> flat) const;

  std::unique_ptr<IntegerCodec> codec_;
  std::uint32_t ranks_;
  std::uint32_t code_limit_, sum_limit_;  // codes are -limit ... limit
};

}  // namespace eqt::codec
