// SPDX-License-Identifier: Apache-2.0
#include "codec/integer/integer_message.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>

#include "codec/bytes.hpp"
#include "codec/finite.hpp"
#include "codec/frame.hpp"
#include "codec/integer/integer_kernels.hpp"
#include "core/error.hpp"

namespace eqt::codec {
namespace {

/// Codes that are processed at a time, so that they stay in the first-level cache; whole blocks of
/// planes.
constexpr std::size_t kCodeBlock = 4096;
static_assert(kCodeBlock % kPlaneCodes == 0);

/// A buffer of codes that are not packed yet: parts of buckets need not end where blocks of planes
/// do.
class CodePacker {
 public:
  CodePacker(std::uint32_t limit, std::span<std::byte> to) : limit_(limit), to_(to) {}

  /// Room for the next `count` <= kCodeBlock codes.
  std::span<std::int8_t> next(std::size_t count) {
    if (filled_ + count > sizeof codes_) pack_whole_blocks();
    filled_ += count;
    return std::span(codes_).subspan(filled_ - count, count);
  }

  void finish() { pack(filled_); }

 private:
  void pack_whole_blocks() {
    const std::size_t whole = filled_ - filled_ % kPlaneCodes;
    pack(whole);
    std::copy(codes_ + whole, codes_ + filled_, codes_);
    filled_ -= whole;
  }

  void pack(std::size_t count) {
    const std::size_t bytes = packed_bytes(count, code_width(limit_));
    pack_codes({codes_, count}, limit_, to_.first(bytes));
    to_ = to_.subspan(bytes);
  }

  const std::uint32_t limit_;
  std::span<std::byte> to_;
  std::size_t filled_ = 0;
  alignas(64) std::int8_t codes_[kCodeBlock + kPlaneCodes];
};

// In the message index; codes have neither.
constexpr std::uint32_t kScalesBit = 0x40000000u;
constexpr std::uint32_t kSumsBit = 0x80000000u;
constexpr std::uint32_t kMaxSum = 32767;

std::uint64_t values_of(std::span<const ScaledSegment> segments) {
  std::uint64_t count = 0;
  for (const ScaledSegment& scaled : segments) count += scaled.segment.count;
  return count;
}

/// Calls part(scale, offset in its bucket, begin in the segment, count) for each bucket's part of
/// the values [begin, begin + count) of a segment.
template <typename Part>
void for_each_bucket(const ScaledSegment& scaled, std::size_t bucket_size, std::size_t begin,
                     std::size_t count, Part&& part) {
  if (bucket_size == 0) return part(scaled.scale, scaled.offset + begin, begin, count);
  const std::size_t end = begin + count;
  while (begin < end) {
    const std::size_t offset = begin % bucket_size;
    const std::size_t n = std::min(bucket_size - offset, end - begin);
    part(scaled.scale + begin / bucket_size, offset, begin, n);
    begin += n;
  }
}

[[noreturn]] void fail_code(std::uint32_t limit, const std::string& whose = {}) {
  fail(Kind::wire,
       "{}integer codes: expected codes from {} to {} and zeros behind the last, found others; "
       "check "
       "the network and memory",
       whose, -static_cast<std::int64_t>(limit), limit);
}

void read_raw(std::span<const std::byte> from, std::span<float> values) {
  std::memcpy(values.data(), from.data(), values.size_bytes());
  const std::size_t bad = first_non_finite(values);
  if (bad == values.size()) return;
  fail(Kind::wire, "integer codes: expected finite raw values, found {} at {} of {}", values[bad],
       bad, values.size());
}

/// The mean of raw values, `at` bytes into each frame, added in the order of `frames`: the same
/// bits as the collective dense.
void add_raw(std::span<const std::span<const std::byte>> frames, std::size_t at, std::size_t count,
             std::span<std::byte> to) {
  const float share = 1.0f / static_cast<float>(frames.size());
  constexpr std::size_t kValues = 1024;
  float sum[kValues], next[kValues];
  for (std::size_t i = 0; i < count; i += kValues) {
    const std::size_t n = std::min(kValues, count - i);
    for (std::size_t r = 0; r < frames.size(); ++r) {
      const auto from = frames[r].subspan(at + i * sizeof(float), n * sizeof(float));
      read_raw(from, {r == 0 ? sum : next, n});
      for (std::size_t j = 0; r > 0 && j < n; ++j) sum[j] += next[j];
    }
    for (std::size_t j = 0; j < n; ++j) sum[j] *= share;
    if (const std::size_t bad = first_non_finite({sum, n}); bad < n) {
      fail(Kind::diverged,
           "expected finite means of raw values, found {} at {} of {}; try a smaller learning rate",
           sum[bad], i + bad, count);
    }
    std::memcpy(to.data() + i * sizeof(float), sum, n * sizeof(float));
  }
}

}  // namespace

IntegerMessages::IntegerMessages(std::unique_ptr<IntegerCodec> codec, std::uint32_t ranks)
    : codec_(std::move(codec)), ranks_(ranks) {
  code_limit_ = static_cast<std::uint32_t>(codec_->largest_code());
  if (ranks > kMaxSum / code_limit_) {
    fail(Kind::usage,
         "synchronization.collective: integer adds codes up to {} in 16 bits, which is enough for "
         "{} ranks, found {}; use fewer compressor.bits or scatter-reduce",
         code_limit_, kMaxSum / code_limit_, ranks);
  }
  sum_limit_ = code_limit_ * ranks;
}

int IntegerMessages::code_bits() const noexcept { return code_width(code_limit_); }
int IntegerMessages::sum_bits() const noexcept { return code_width(sum_limit_); }

std::size_t IntegerMessages::scale_count(const Segment& segment) const noexcept {
  if (!segment.compressed || segment.count == 0) return 0;
  const std::size_t size = codec_->bucket_size();
  return size == 0 ? 1 : (segment.count - 1) / size + 1;
}

std::size_t IntegerMessages::scales_bytes(std::size_t scales) const noexcept {
  return kFrameHeaderBytes + scales * sizeof(float);
}

std::size_t IntegerMessages::message_bytes(std::span<const ScaledSegment> segments,
                                           std::uint32_t limit) const noexcept {
  std::size_t bytes = kFrameHeaderBytes;
  for (const ScaledSegment& scaled : segments) {
    bytes += scaled.segment.compressed ? packed_bytes(scaled.segment.count, code_width(limit))
                                       : scaled.segment.count * sizeof(float);
  }
  return bytes;
}

std::size_t IntegerMessages::codes_bytes(std::span<const ScaledSegment> segments) const noexcept {
  return message_bytes(segments, code_limit_);
}

std::size_t IntegerMessages::sums_bytes(std::span<const ScaledSegment> segments) const noexcept {
  return message_bytes(segments, sum_limit_);
}

void IntegerMessages::seal(MessageId id, std::uint64_t count, std::span<std::byte> frame) const {
  const std::size_t payload = frame.size() - kFrameHeaderBytes;
  EQT_CHECK(payload <= UINT32_MAX, "a message of {} bytes", payload);
  write_header({.codec = codec_->id(),
                .format_version = codec_->format_version(),
                .step = id.step,
                .count = count,
                .index = id.index,
                .payload_bytes = static_cast<std::uint32_t>(payload)},
               frame);
}

std::span<const std::byte> IntegerMessages::open(std::span<const std::byte> frame, MessageId id,
                                                 std::uint64_t count, std::size_t bytes) const {
  const auto payload = open_frame(frame, {.codec = codec_->id(),
                                          .format_version = codec_->format_version(),
                                          .step = id.step,
                                          .count = count,
                                          .index = id.index});
  if (frame.size() != bytes) {
    fail(Kind::wire,
         "integer codes: expected a payload of {} bytes for {} values or scales and codes of {} "
         "bits, found {}; the ranks run different configs or builds",
         bytes - kFrameHeaderBytes, count, code_bits(), payload.size());
  }
  return payload;
}

void IntegerMessages::find_scales(std::span<const ScaledSegment> segments,
                                  std::span<const float> flat, std::span<float> scales) const {
  for (const ScaledSegment& scaled : segments) {
    const Segment& segment = scaled.segment;
    if (!segment.compressed || segment.count == 0) continue;
    const auto values = flat.subspan(segment.begin, segment.count);
    for_each_bucket(scaled, codec_->bucket_size(), 0, segment.count,
                    [&](std::size_t scale, std::size_t, std::size_t begin, std::size_t count) {
                      scales[scale] = codec_->own_scale(values.subspan(begin, count));
                    });
  }
}

void IntegerMessages::write_scales(std::span<const float> scales, MessageId id,
                                   std::span<std::byte> frame) const {
  EQT_CHECK(frame.size() == scales_bytes(scales.size()), "{} bytes for {} scales", frame.size(),
            scales.size());
  seal({id.step, id.index | kScalesBit}, scales.size(), frame);
  std::memcpy(frame.data() + kFrameHeaderBytes, scales.data(), scales.size_bytes());
}

void IntegerMessages::raise_scales(std::span<const std::byte> frame, MessageId id,
                                   std::span<float> scales) const {
  const auto payload =
      open(frame, {id.step, id.index | kScalesBit}, scales.size(), scales_bytes(scales.size()));
  for (std::size_t i = 0; i < scales.size(); ++i) {
    const auto theirs = load<float>(payload.data() + i * sizeof(float));
    if (!std::isfinite(theirs) || std::signbit(theirs)) {
      fail(Kind::wire,
           "integer codes: expected finite scales of at least 0, found {} for bucket {}; check the "
           "network and memory",
           theirs, i);
    }
    scales[i] = std::max(scales[i], theirs);
  }
}

void IntegerMessages::write_codes(std::span<const ScaledSegment> segments,
                                  std::span<const float> flat, const SharedScales& scales,
                                  const MessageContext& context, std::span<std::byte> frame) const {
  EQT_CHECK(frame.size() == codes_bytes(segments), "{} bytes for codes of {}", frame.size(),
            codes_bytes(segments));
  seal(context.id, values_of(segments), frame);
  std::span<std::byte> to = frame.subspan(kFrameHeaderBytes);
  for (const ScaledSegment& scaled : segments) {
    const Segment& segment = scaled.segment;
    const auto values = flat.subspan(segment.begin, segment.count);
    std::size_t bytes = values.size_bytes();
    if (segment.compressed) {
      bytes = packed_bytes(segment.count, code_bits());
      const RandomKey key = {context.run_seed, context.id.step, context.rank, segment.slice};
      const bool compensates = !context.residual.empty();
      const auto residual =
          compensates ? context.residual.subspan(segment.begin, segment.count) : std::span<float>();
      write_segment(scaled, compensates ? std::span<const float>(residual) : values, residual,
                    scales, key, context.strata, to.first(bytes));
    } else {
      std::memcpy(to.data(), values.data(), bytes);
    }
    to = to.subspan(bytes);
  }
}

void IntegerMessages::write_segment(const ScaledSegment& scaled, std::span<const float> values,
                                    std::span<float> residual, const SharedScales& scales,
                                    const RandomKey& key, const Strata* strata,
                                    std::span<std::byte> to) const {
  CodePacker packer(code_limit_, to);
  const auto quantise = [&](std::size_t scale, std::size_t offset, std::size_t begin,
                            std::size_t count) {
    const SharedBucket bucket = {
        .own = scales.own[scale],
        .shared = scales.shared[scale],
        .key = key,
        .first_index = scaled.segment.first_index + begin - offset,
        .count = std::min(codec_->bucket_size(), scaled.segment.count + offset - begin),
        .strata = strata};
    const float step = codec_->step(bucket.shared);
    for (std::size_t i = 0; i < count; i += kCodeBlock) {
      const std::size_t n = std::min(kCodeBlock, count - i);
      const auto codes = packer.next(n);
      codec_->quantise(bucket, offset + i, values.subspan(begin + i, n), codes);
      if (!residual.empty()) subtract_scaled(codes, step, residual.subspan(begin + i, n));
    }
  };
  for_each_bucket(scaled, codec_->bucket_size(), 0, values.size(), quantise);
  packer.finish();
}

void IntegerMessages::subtract_codes(std::span<const std::byte> frame,
                                     std::span<const ScaledSegment> segments,
                                     std::span<const float> shared, MessageId id,
                                     std::span<float> flat) const {
  auto from = open(frame, id, values_of(segments), codes_bytes(segments));
  std::int8_t codes[kCodeBlock];
  for (const ScaledSegment& scaled : segments) {
    const auto values = flat.subspan(scaled.segment.begin, scaled.segment.count);
    if (!scaled.segment.compressed) {
      std::fill(values.begin(), values.end(), 0.0f);
      from = from.subspan(values.size_bytes());
      continue;
    }
    for (std::size_t i = 0; i < values.size(); i += kCodeBlock) {
      const std::size_t n = std::min(kCodeBlock, values.size() - i);
      const std::size_t bytes = packed_bytes(n, code_bits());
      if (!unpack_codes(from.first(bytes), code_limit_, std::span(codes, n))) {
        fail_code(code_limit_);
      }
      from = from.subspan(bytes);
      for_each_bucket(scaled, codec_->bucket_size(), i, n,
                      [&](std::size_t scale, std::size_t, std::size_t begin, std::size_t count) {
                        subtract_scaled({codes + (begin - i), count}, codec_->step(shared[scale]),
                                        values.subspan(begin, count));
                      });
    }
  }
}

void IntegerMessages::check_codes(std::span<const std::byte> frame,
                                  std::span<const ScaledSegment> segments, MessageId id) const {
  (void)open(frame, id, values_of(segments), codes_bytes(segments));
}

void IntegerMessages::add_codes(std::span<const std::span<const std::byte>> frames,
                                std::span<const ScaledSegment> segments, MessageId id,
                                std::span<std::byte> sums) const {
  EQT_CHECK(frames.size() == ranks_, "{} messages of {} ranks", frames.size(), ranks_);
  EQT_CHECK(sums.size() == sums_bytes(segments), "{} bytes for sums of {}", sums.size(),
            sums_bytes(segments));
  for (const auto frame : frames) check_codes(frame, segments, id);
  seal({id.step, id.index | kSumsBit}, values_of(segments), sums);
  std::size_t at = kFrameHeaderBytes;
  std::span<std::byte> to = sums.subspan(at);
  for (const ScaledSegment& scaled : segments) {
    const std::size_t count = scaled.segment.count;
    if (!scaled.segment.compressed) {
      add_raw(frames, at, count, to);
      at += count * sizeof(float);
      to = to.subspan(count * sizeof(float));
      continue;
    }
    const auto packed = to.first(packed_bytes(count, sum_bits()));
    if (sum_limit_ <= 127) {
      add_segment<std::int8_t>(frames, at, count, packed);
    } else {
      add_segment<std::int16_t>(frames, at, count, packed);
    }
    at += packed_bytes(count, code_bits());
    to = to.subspan(packed.size());
  }
}

/// One block of all ranks at a time, so that codes and sums stay in the first-level cache.
template <typename Sum>
void IntegerMessages::add_segment(std::span<const std::span<const std::byte>> frames,
                                  std::size_t at, std::size_t count,
                                  std::span<std::byte> to) const {
  alignas(64) std::int8_t codes[kCodeBlock];
  alignas(64) Sum sums[kCodeBlock];
  for (std::size_t i = 0; i < count; i += kCodeBlock) {
    const std::size_t n = std::min(kCodeBlock, count - i);
    const std::size_t bytes = packed_bytes(n, code_bits());
    std::fill_n(sums, n, Sum{0});
    for (std::size_t r = 0; r < frames.size(); ++r) {
      if (!unpack_codes(frames[r].subspan(at, bytes), code_limit_, std::span(codes, n))) {
        fail_code(code_limit_, fmt::format("message {} of {}: ", r, frames.size()));
      }
      codec::add_codes(std::span<const std::int8_t>(codes, n), std::span(sums, n));
    }
    at += bytes;
    const auto packed = to.first(packed_bytes(n, sum_bits()));
    pack_codes(std::span<const Sum>(sums, n), sum_limit_, packed);
    to = to.subspan(packed.size());
  }
}

void IntegerMessages::read_sums(std::span<const std::byte> frame,
                                std::span<const ScaledSegment> segments,
                                std::span<const float> shared, MessageId id,
                                std::span<float> flat) const {
  auto from =
      open(frame, {id.step, id.index | kSumsBit}, values_of(segments), sums_bytes(segments));
  for (const ScaledSegment& scaled : segments) {
    const auto values = flat.subspan(scaled.segment.begin, scaled.segment.count);
    if (!scaled.segment.compressed) {
      read_raw(from.first(values.size_bytes()), values);
      from = from.subspan(values.size_bytes());
      continue;
    }
    const std::size_t bytes = packed_bytes(values.size(), sum_bits());
    if (sum_limit_ <= 127) {
      read_segment<std::int8_t>(from.first(bytes), scaled, shared, values);
    } else {
      read_segment<std::int16_t>(from.first(bytes), scaled, shared, values);
    }
    from = from.subspan(bytes);
  }
}

template <typename Sum>
void IntegerMessages::read_segment(std::span<const std::byte> from, const ScaledSegment& scaled,
                                   std::span<const float> shared, std::span<float> values) const {
  alignas(64) Sum sums[kCodeBlock];
  for (std::size_t i = 0; i < values.size(); i += kCodeBlock) {
    const std::size_t n = std::min(kCodeBlock, values.size() - i);
    const auto packed = from.first(packed_bytes(n, sum_bits()));
    if (!unpack_codes(packed, sum_limit_, std::span(sums, n))) fail_code(sum_limit_);
    from = from.subspan(packed.size());
    for_each_bucket(scaled, codec_->bucket_size(), i, n,
                    [&](std::size_t scale, std::size_t, std::size_t begin, std::size_t count) {
                      const double step = static_cast<double>(codec_->step(shared[scale]));
                      const float mean_step = step_of(step * code_limit_, sum_limit_);
                      scale_codes(std::span<const Sum>(sums + (begin - i), count), mean_step,
                                  values.subspan(begin, count));
                    });
  }
}

}  // namespace eqt::codec
