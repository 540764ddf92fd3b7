// SPDX-License-Identifier: Apache-2.0
#include "codec/rate/rate_codec.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "codec/bytes.hpp"
#include "codec/finite.hpp"
#include "codec/levels/level_kernels.hpp"
#include "codec/rate/dead_zone_kernels.hpp"
#include "codec/rate/nested_gaps.hpp"
#include "core/error.hpp"

namespace eqt::codec {
namespace {

// A level codec's format version 2, with the bit that the reconstruction is in the payload.
constexpr std::uint8_t kVersion = 0x22;
constexpr float kLargest = 0x1p100f, kSmallest = 0x1p-100f;
constexpr std::size_t kStepBytes = 2, kHeaderBytes = 5;
constexpr double kLengthBits = 32;  // of the field before a payload in a message
constexpr double kCentroidUnits = 64;
constexpr double kLeastSampled = 1;  // below this rate all values are counted
// A block is coded again while its bits are further off than this; a few are a matter of rounding.
constexpr double kTolerance = 0.015, kSpareBits = 24;
constexpr int kMostPasses = 2;
constexpr unsigned kLowBits = 3, kGaps = 4, kWide = 8, kForms = 15;
// Slots of the workspace.
constexpr ScratchArray<LevelCode> kCodes{0};
constexpr ScratchArray<std::byte> kNested{1};
constexpr ScratchArray<std::uint8_t> kLower{2};

[[noreturn]] void fail_truncated(std::size_t expected, std::size_t found) {
  fail(Kind::wire,
       "rate payload: expected {} more bytes in a block, found {}; check the network and memory",
       expected, found);
}

[[noreturn]] void fail_too_large(CodecId id, std::span<const float> values,
                                 std::uint64_t first_index) {
  const auto bad = std::find_if(values.begin(), values.end(),
                                [](float v) { return !(std::abs(v) <= kLargest); });
  fail(Kind::diverged,
       "{}: expected finite values of magnitude at most 2^100 with compressor.rate, found {} at "
       "index {} of the slice; try a smaller learning rate",
       codec_name(id), *bad, first_index + static_cast<std::uint64_t>(bad - values.begin()));
}

std::size_t plane_bytes(std::size_t count) { return (count + 7) / 8; }

/// The split of signed indices in codes of their upper parts and the lower bits.
struct Split {
  int low_bits;
  std::int32_t half() const { return std::int32_t{1} << (low_bits - 1); }

  void take(std::int32_t index, std::uint32_t escape, LevelCode& code, std::uint8_t& lower) const {
    const std::int32_t moved = index + half();
    const std::int32_t upper = moved >> low_bits;  // rounds down
    const auto magnitude = static_cast<std::uint32_t>(std::abs(upper));
    lower = static_cast<std::uint8_t>(moved & ((1 << low_bits) - 1));
    code = static_cast<LevelCode>(std::min(magnitude, escape));
    if (magnitude >= escape) lower = 0;
    if (upper < 0) code |= kSignCode;
  }

  std::int32_t index(LevelCode code, std::uint8_t lower) const {
    const std::int32_t magnitude = code & (kSignCode - 1);
    return (code >= kSignCode ? -magnitude : magnitude) * (1 << low_bits) + lower - half();
  }
};

}  // namespace

/// The header of a block.
struct RateCodec::Block {
  float step = 0;
  unsigned first = 0, second = 0;  // centroids [1/64 steps]
  unsigned form = 0;

  int low_bits() const { return static_cast<int>(form & kLowBits); }
  bool wide() const { return (form & kWide) != 0; }
  std::uint32_t escape() const { return wide() ? kWideEscape : kNarrowEscape; }

  void store_at(std::byte* to) const {
    store(to, static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(step) >> 16));
    to[2] = static_cast<std::byte>(first);
    to[3] = static_cast<std::byte>(second);
    to[4] = static_cast<std::byte>(form);
  }

  /// Fills the magnitudes of indices with both signs; the escape has none.
  void fill(float scale, float (&value)[256]) const {
    for (std::uint32_t j = 0; j < escape(); ++j) {
      const float steps = j == 0   ? 0.0f
                          : j == 1 ? static_cast<float>(first) / 64
                                   : static_cast<float>(second) / 64 + static_cast<float>(j - 2);
      value[j] = scale * (steps * step);
      value[kSignCode + j] = -value[j];
    }
    value[escape()] = value[kSignCode + escape()] = 0;
  }

  /// Reads and checks the header of a block whose step is not 0.
  static Block read(std::span<const std::byte> from) {
    if (from.size() < kHeaderBytes) fail_truncated(kHeaderBytes, from.size());
    Block block;
    block.step = std::bit_cast<float>(std::uint32_t{load<std::uint16_t>(from.data())} << 16);
    block.first = std::to_integer<unsigned>(from[2]);
    block.second = std::to_integer<unsigned>(from[3]);
    block.form = std::to_integer<unsigned>(from[4]);
    if (!(block.step > 0) || block.step > 2 * kLargest)
      fail(Kind::wire,
           "rate payload: expected a step above 0 and at most 2^101, found {}; check the network "
           "and memory",
           block.step);
    if (block.first == 0 || block.second <= block.first)
      fail(Kind::wire,
           "rate payload: expected centroids that rise from above 0, found {}/64 and {}/64; check "
           "the network and memory",
           block.first, block.second);
    const bool splits = block.low_bits() > 0, gaps = (block.form & kGaps) != 0;
    if (block.form > kForms || (gaps && block.wide()) || (splits && !block.wide()))
      fail(Kind::wire,
           "rate payload: expected a form of a block, found {}; check the network and memory",
           block.form);
    return block;
  }
};

RateCodec::RateCodec(const CompressorRow& row, const CompressorOptions& options)
    : id_(row.id),
      rate_(options.rate.value()),
      block_(options.bucket_size),
      narrow_(Coding::automatic, kNarrowEscape),
      wide_(Coding::automatic, kWideEscape) {}

std::uint8_t RateCodec::format_version() const noexcept { return kVersion; }

Properties RateCodec::properties() const noexcept {
  return {.needs_feedback = true, .largest = kLargest, .granule = block_, .concatenates = true};
}

std::size_t RateCodec::max_payload_bytes(std::size_t count) const {
  const auto block_bytes = [&](std::size_t n) {
    return kHeaderBytes + wide_.max_bytes(n) + kLowBits * plane_bytes(n) + n * sizeof(float);
  };
  const std::size_t last = count % block_;
  return count / block_ * block_bytes(block_) + (last > 0 ? block_bytes(last) : 0);
}

// The bits of a block; a slice pays for the length of its payload in the message with its first.
double RateCodec::budget(std::size_t count, std::uint64_t first_index) const {
  return rate_ * static_cast<double>(count) - (first_index == 0 ? kLengthBits : 0);
}

std::size_t RateCodec::encode(std::span<const float> values, const EncodeContext& context,
                              Workspace& workspace, std::span<std::byte> payload) const {
  require_room(payload, max_payload_bytes(values.size()), values.size());
  std::size_t used = 0;
  for (std::size_t start = 0; start < values.size(); start += block_) {
    const auto block = values.subspan(start, std::min(block_, values.size() - start));
    used += encode_block(block, context.first_index + start,
                         std::bit_cast<float>(largest_magnitude_bits(block)), workspace,
                         payload.subspan(used));
  }
  return used;
}

std::size_t RateCodec::encode_with_feedback(std::span<const float> gradient,
                                            const EncodeContext& context, Workspace& workspace,
                                            std::span<float> residual,
                                            std::span<std::byte> payload) const {
  require_room(payload, max_payload_bytes(gradient.size()), gradient.size());
  std::size_t used = 0;
  for (std::size_t start = 0; start < gradient.size(); start += block_) {
    const std::size_t count = std::min(block_, gradient.size() - start);
    const auto block = residual.subspan(start, count);
    const float largest = std::bit_cast<float>(compensate(gradient.subspan(start, count), block));
    const auto to = payload.subspan(used);
    const std::size_t bytes =
        encode_block(block, context.first_index + start, largest, workspace, to);
    if (decode_block(to.first(bytes), -1.0f, workspace, block) != bytes)
      EQT_CHECK(false, "a block of {} bytes was read otherwise", bytes);
    used += bytes;
  }
  return used;
}

std::size_t RateCodec::encode_block(std::span<const float> values, std::uint64_t first_index,
                                    float largest, Workspace& workspace,
                                    std::span<std::byte> to) const {
  if (!(largest <= kLargest)) fail_too_large(id_, values, first_index);
  if (largest < kSmallest) {
    store(to.data(), std::uint16_t{0});
    return kStepBytes;
  }
  thread_local MagnitudeHistogram magnitudes;
  const double bits = budget(values.size(), first_index);
  bool sampled = rate_ >= kLeastSampled;
  sampled ? magnitudes.sample(values) : magnitudes.count(values);
  std::size_t bytes =
      write_block(values, magnitudes.quantizer(bits, rate_, largest), workspace, to);
  // A sample may miss values that matter, and values in clusters take fewer bits than expected.
  double asked = bits;
  for (int pass = 0; pass < kMostPasses && bits > 0; ++pass) {
    const double spent = 8 * static_cast<double>(bytes);
    if (std::abs(spent - bits) <= kTolerance * bits + kSpareBits) break;
    if (sampled) magnitudes.count(values);
    sampled = false;
    asked *= bits / spent;
    bytes = write_block(values, magnitudes.quantizer(asked, rate_, largest), workspace, to);
  }
  return bytes;
}

std::size_t RateCodec::write_block(std::span<const float> values, const DeadZone& zone,
                                   Workspace& workspace, std::span<std::byte> to) const {
  const auto units = [](double steps) {
    return static_cast<unsigned>(std::floor(steps * kCentroidUnits + 0.5));
  };
  Block block{.step = zone.step, .first = units(zone.first), .second = units(zone.second)};
  block.form = static_cast<unsigned>(zone.low_bits) | (zone.escape == kWideEscape ? kWide : 0);
  const auto codes = workspace.array(kCodes, values.size());
  const auto lower = workspace.array(kLower, zone.low_bits > 0 ? values.size() : 0);
  const float inverse = 1 / zone.step, offset = 1 - zone.zone;
  if (zone.low_bits == 0) {
    quantize_dead_zone(values, inverse, offset, zone.escape, codes);
  } else {
    const Split split{zone.low_bits};
    const float most = 0x1p20f;
    for (std::size_t i = 0; i < values.size(); ++i) {
      const auto magnitude =
          static_cast<std::int32_t>(std::min(std::abs(values[i]) * inverse + offset, most));
      split.take(std::signbit(values[i]) ? -magnitude : magnitude, zone.escape, codes[i], lower[i]);
    }
  }
  std::size_t used = kHeaderBytes;
  const std::size_t coded = (block.wide() ? wide_ : narrow_).encode(codes, to.subspan(used));
  std::size_t bytes = coded;
  const std::size_t nonzeros = count_nonzeros(codes);
  if (!block.wide() && nonzeros <= values.size() / 4) {
    const auto nested =
        workspace.array(kNested, nested_gaps_max_bytes(values.size(), kNarrowEscape));
    const std::size_t gaps = write_nested_gaps(codes, kNarrowEscape, nested);
    if (gaps < coded) {
      block.form |= kGaps;
      bytes = gaps;
      std::memcpy(to.data() + used, nested.data(), gaps);
    }
  }
  block.store_at(to.data());
  used += bytes;
  for (int plane = 0; plane < zone.low_bits; ++plane) {
    const auto row = to.subspan(used, plane_bytes(values.size()));
    std::fill(row.begin(), row.end(), std::byte{0});
    for (std::size_t i = 0; i < values.size(); ++i)
      row[i / 8] |= static_cast<std::byte>((lower[i] >> plane & 1) << i % 8);
    used += row.size();
  }
  for (std::size_t i = 0; i < values.size(); ++i) {
    if ((codes[i] & (kSignCode - 1)) != zone.escape) continue;
    store(to.data() + used, values[i]);
    used += sizeof(float);
  }
  return used;
}

// Adds the values of one block. Returns its bytes.
std::size_t RateCodec::decode_block(std::span<const std::byte> from, float scale,
                                    Workspace& workspace, std::span<float> sum) const {
  if (from.size() < kStepBytes) fail_truncated(kStepBytes, from.size());
  if (load<std::uint16_t>(from.data()) == 0) return kStepBytes;
  const Block block = Block::read(from);
  std::size_t used = kHeaderBytes;
  const auto codes = workspace.array(kCodes, sum.size());
  const auto rest = from.subspan(used);
  if ((block.form & kGaps) != 0)
    used += read_nested_gaps(rest, kNarrowEscape, codes);
  else
    used += (block.wide() ? wide_ : narrow_).decode(rest, codes);
  const auto escape = static_cast<LevelCode>(block.escape());
  if (block.low_bits() == 0) {
    alignas(64) float value[256];
    block.fill(scale, value);
    add_codes(codes, block.wide() ? 8 : 5, value, sum);
  } else {
    const std::size_t row = plane_bytes(sum.size());
    const auto planes = static_cast<std::size_t>(block.low_bits());
    if (from.size() - used < planes * row) fail_truncated(planes * row, from.size() - used);
    const Split split{block.low_bits()};
    for (std::size_t i = 0; i < sum.size(); ++i) {
      unsigned lower = 0;
      for (std::size_t plane = 0; plane < planes; ++plane)
        lower |= (std::to_integer<unsigned>(from[used + plane * row + i / 8]) >> i % 8 & 1)
                 << plane;
      if ((codes[i] & (kSignCode - 1)) == escape) continue;
      sum[i] +=
          scale * (static_cast<float>(split.index(codes[i], static_cast<std::uint8_t>(lower))) *
                   block.step);
    }
    used += planes * row;
  }
  for (std::size_t i = 0; i < sum.size(); ++i) {
    if ((codes[i] & (kSignCode - 1)) != escape) continue;
    if (from.size() - used < sizeof(float)) fail_truncated(sizeof(float), from.size() - used);
    const auto value = load<float>(from.data() + used);
    if (!std::isfinite(value))
      fail(Kind::wire,
           "rate payload: expected finite values, found {}; check the network and memory", value);
    sum[i] += scale * value;
    used += sizeof(float);
  }
  return used;
}

void RateCodec::decode_add(std::span<const std::byte> payload, float scale, Workspace& workspace,
                           std::span<float> sum) const {
  for (std::size_t start = 0; start < sum.size(); start += block_)
    payload = payload.subspan(decode_block(
        payload, scale, workspace, sum.subspan(start, std::min(block_, sum.size() - start))));
  if (!payload.empty())
    fail(Kind::wire,
         "rate payload: expected its end after {} values, found {} more bytes; check "
         "the network and memory",
         sum.size(), payload.size());
}

}  // namespace eqt::codec
