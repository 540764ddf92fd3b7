// SPDX-License-Identifier: Apache-2.0
#include "codec/rate/rate_codec.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "codec/bytes.hpp"
#include "codec/entropy/rans.hpp"
#include "codec/finite.hpp"
#include "codec/levels/level_kernels.hpp"
#include "codec/rate/dead_zone_kernels.hpp"
#include "codec/rate/nested_gaps.hpp"
#include "core/error.hpp"

namespace eqt::codec {
namespace {

// A level codec's format version 5, with the bit that the reconstruction is in the payload.
constexpr std::uint8_t kVersion = 0x25;
constexpr std::size_t kHeaderBytes = Reconstruction::kBytes + 1;
constexpr double kLengthBits = 32;   // of the field before a payload in a message
constexpr double kLeastSampled = 1;  // below this rate all values are counted
// A block is coded again while its bits are further off than this; a few are a matter of rounding.
constexpr double kTolerance = 0.025, kSpareBits = 24;
constexpr int kMostPasses = 3;
constexpr double kFarOff = 0.3;  // relative: the right step may be far from the one that was found
constexpr std::uint64_t kEachByte = 0x0101010101010101u;
// The form of a block: three bits of lower bits' number, gaps, and the largest index.
constexpr unsigned kLowBits = 7, kGaps = 8;
constexpr int kLargestShift = 4;
// Blocks of fewer values are coded both ways; of others the way is chosen by its expected bits.
constexpr std::size_t kSmallBlock = 4096;
// Slots of the workspace.
constexpr ScratchArray<LevelCode> kCodes{0};
constexpr ScratchArray<std::byte> kNested{1};
constexpr ScratchArray<std::uint8_t> kLower{2};

// A word of eight codes has a zero byte where a code is an escape, signs aside.
bool has_escape(std::uint64_t codes) {
  const std::uint64_t x = (codes & (kEachByte * (kSignCode - 1))) ^ (kEachByte * kEscape);
  return ((x - kEachByte) & ~x & (kEachByte * 0x80)) != 0;
}

bool any_above(std::span<const LevelCode> codes, std::uint32_t largest) {
  // The sum has bit 7 where the index is above.
  const std::uint8_t room = static_cast<std::uint8_t>(kSignCode - 1 - largest);
  std::uint8_t above = 0;
  for (const LevelCode code : codes)
    above |= static_cast<std::uint8_t>((code & (kSignCode - 1)) + room);
  return (above & kSignCode) != 0;
}

/// Calls take(i) for each escape, ascending.
template <typename Take>
void for_each_escape(std::span<const LevelCode> codes, Take take) {
  for (std::size_t at = 0; at < codes.size(); at += 8) {
    const std::size_t end = std::min(codes.size(), at + 8);
    std::uint64_t eight = 0;
    std::memcpy(&eight, codes.data() + at, end - at);
    if (!has_escape(eight)) continue;
    for (std::size_t i = at; i < end; ++i)
      if ((codes[i] & (kSignCode - 1)) == kEscape) take(i);
  }
}

}  // namespace

/// The header of a block: the reconstruction, and unless the step is 0 a form byte.
struct RateCodec::Block {
  Reconstruction values;
  unsigned form = 0;

  int low_bits() const { return static_cast<int>(form & kLowBits); }
  bool gaps() const { return (form & kGaps) != 0; }
  std::uint32_t largest() const { return form >> kLargestShift; }  // index that occurs
  bool escapes() const { return largest() == kEscape; }

  void store_at(std::byte* to) const { to[values.write(to)] = static_cast<std::byte>(form); }

  /// sum[i] += scale * value i, except for escapes.
  void add(std::span<const LevelCode> codes, std::span<const std::uint8_t> lower, float scale,
           std::span<float> sum) const {
    if (low_bits() > 0)
      return add_split(codes, lower, {low_bits(), kEscape}, values.step, scale, sum);
    alignas(64) float value[256] = {};
    values.fill(scale, kEscape - 1, kSignCode, value);
    add_codes(codes, largest() < 8 ? 4 : 5, value, sum);
  }

  /// Reads and checks the header.
  static Block read(std::span<const std::byte> from) {
    Block block{.values = Reconstruction::read(from)};
    if (block.values.step == 0) return block;
    if (from.size() < kHeaderBytes) fail_truncated_block(kHeaderBytes, from.size());
    block.form = std::to_integer<unsigned>(from[kHeaderBytes - 1]);
    if (block.gaps() && block.low_bits() > 0)
      fail(Kind::wire,
           "rate payload: expected a form of a block, found {}; check the network and memory",
           block.form);
    return block;
  }
};

RateDivision divide_bits(double bits, std::span<const Segment> slices) {
  constexpr double kMostSliceBits = 256, kMostShare = 0.25;
  double values = 0, first = 0;
  for (const Segment& slice : slices) {
    values += static_cast<double>(slice.count);
    if (slice.first_index == 0) first += 1;
  }
  EQT_CHECK(values > 0, "{} slices without values", slices.size());
  const double spare = std::min(kMostShare * bits, bits - kLeastRate * values);
  const double shared = std::clamp(spare, 0.0, kMostSliceBits * first);
  return {.rate = std::clamp((bits - shared) / values, kLeastRate, kMostRate),
          .slice_bits = first > 0 ? shared / first : 0};
}

RateCodec::RateCodec(const CompressorRow& row, const CompressorOptions& options)
    : NearestBlocks(row.id, options.bucket_size),
      rate_(options.rate.value()),
      slice_bits_(options.slice_bits),
      entropy_(Coding::automatic, kEscape) {}

std::uint8_t RateCodec::format_version() const noexcept { return kVersion; }

std::size_t RateCodec::max_block_bytes(std::size_t count) const {
  return kHeaderBytes + entropy_.max_bytes(count) + kMostLowBits * plane_bytes(count) +
         count * sizeof(float);
}

// The bits of a block. The first one of a slice has the bits that slices get beside the rate, and
// pays for the length of the payload in the message.
double RateCodec::budget(std::size_t count, std::uint64_t first_index) const {
  return rate_ * static_cast<double>(count) + (first_index == 0 ? slice_bits_ - kLengthBits : 0);
}

// The codes and lower bits stay in the workspace.
std::size_t RateCodec::encode_block(std::span<const float> values, std::uint64_t first_index,
                                    float largest, Workspace& workspace,
                                    std::span<std::byte> to) const {
  thread_local MagnitudeHistogram magnitudes;
  const double bits = budget(values.size(), first_index);
  rate_ >= kLeastSampled ? magnitudes.sample(values, largest) : magnitudes.count(values, largest);
  DeadZone zone = magnitudes.quantizer(bits, rate_);
  std::size_t bytes = write_block(values, largest, zone, workspace, to);
  // A sample may miss values that matter, the step may be below what was counted, coarse bins may
  // hold both what is sent and what is not, and values in clusters take fewer bits than expected.
  double asked = bits;
  DeadZone best = zone;
  double least_miss = HUGE_VAL;
  for (int pass = 0; pass < kMostPasses && bits > 0; ++pass) {
    const double spent = 8 * static_cast<double>(bytes), miss = std::abs(spent - bits);
    if (miss <= kTolerance * bits + kSpareBits) return bytes;
    if (miss < least_miss) {
      least_miss = miss;
      best = zone;
    }
    if (miss > kFarOff * bits)
      magnitudes.count_wide(values, largest);
    else
      magnitudes.count_near(values, largest, static_cast<double>(zone.step) * zone.threshold());
    if (pass > 0) asked *= bits / spent;
    zone = magnitudes.quantizer(asked, rate_);
    bytes = write_block(values, largest, zone, workspace, to);
  }
  // The passes need not come nearer.
  if (std::abs(8 * static_cast<double>(bytes) - bits) > least_miss)
    bytes = write_block(values, largest, best, workspace, to);
  return bytes;
}

std::size_t RateCodec::write_block(std::span<const float> values, float largest,
                                   const DeadZone& zone, Workspace& workspace,
                                   std::span<std::byte> to) const {
  Block block{.values = Reconstruction(zone)};
  const std::size_t d = values.size();
  const auto codes = workspace.array(kCodes, d);
  const auto lower = workspace.array(kLower, zone.low_bits > 0 ? d : 0);
  const float inverse = 1 / zone.step;
  std::uint32_t most = kEscape;  // index that may occur
  if (zone.low_bits == 0) {
    const float offset = 1 - zone.zone;
    quantize_dead_zone(values, inverse, offset, zone.last, codes);
    most = zone.last;
    // The largest value's index, by the operations of the others.
    const float position = largest * inverse + offset;
    if (position < static_cast<float>(most)) most = static_cast<std::uint32_t>(position);
  } else {
    quantize_split(values, inverse, {zone.low_bits, kEscape}, codes, lower);
  }
  const IndexCounts counts = count_indices(codes, most + 1);
  while (most > 0 && counts[most] == 0) --most;
  block.form = static_cast<unsigned>(zone.low_bits) | most << kLargestShift;
  std::size_t used =
      kHeaderBytes + write_codes(codes, counts, workspace, block, to.subspan(kHeaderBytes));
  block.store_at(to.data());
  const std::size_t planes = static_cast<std::size_t>(zone.low_bits) * plane_bytes(d);
  if (planes > 0) write_planes(lower, zone.low_bits, to.subspan(used, planes));
  used += planes;
  if (!block.escapes()) return used;
  for_each_escape(codes, [&](std::size_t i) {
    store(to.data() + used, values[i]);
    used += sizeof(float);
  });
  return used;
}

// Writes the codes by the coding that takes fewer bytes, and notes it in the form.
std::size_t RateCodec::write_codes(std::span<const LevelCode> codes, const IndexCounts& counts,
                                   Workspace& workspace, Block& block,
                                   std::span<std::byte> to) const {
  const bool small = codes.size() < kSmallBlock;
  const RansModel model = rans_narrow_model(counts);
  const bool tries_gaps =
      block.low_bits() == 0 && (small || MagnitudeHistogram::gap_bits(counts) <
                                             static_cast<double>(rans_bits(model, counts)));
  if (!tries_gaps && !small) return rans_write(model, codes, to);
  const std::size_t coded = small ? entropy_.encode(codes, counts, to) : SIZE_MAX;
  if (!tries_gaps) return coded;
  const auto nested = workspace.array(kNested, nested_gaps_max_bytes(codes.size(), kEscape));
  const std::size_t bytes = write_nested_gaps(codes, block.largest(), nested);
  if (bytes >= coded) return coded;
  block.form |= kGaps;
  std::memcpy(to.data(), nested.data(), bytes);
  return bytes;
}

void RateCodec::subtract_block(std::span<const std::byte> block, Workspace& workspace,
                               std::span<float> values) const {
  const Block header = Block::read(block);
  const auto codes = workspace.array(kCodes, values.size());
  header.add(codes, workspace.array(kLower, header.low_bits() > 0 ? values.size() : 0), -1, values);
  if (header.escapes()) for_each_escape(codes, [&](std::size_t i) { values[i] = 0; });
}

std::size_t RateCodec::decode_block(std::span<const std::byte> from, float scale,
                                    Workspace& workspace, std::span<float> sum) const {
  const Block block = Block::read(from);
  if (block.values.step == 0) return block.values.bytes();
  std::size_t used = kHeaderBytes;
  const auto codes = workspace.array(kCodes, sum.size());
  const auto rest = from.subspan(used);
  used +=
      block.gaps() ? read_nested_gaps(rest, block.largest(), codes) : entropy_.decode(rest, codes);
  if (any_above(codes, block.largest()))
    fail(
        Kind::wire,
        "rate payload: expected indices up to {}, found a larger one; check the network and memory",
        block.largest());
  const auto lower = workspace.array(kLower, block.low_bits() > 0 ? sum.size() : 0);
  const std::size_t planes = static_cast<std::size_t>(block.low_bits()) * plane_bytes(sum.size());
  if (from.size() - used < planes) fail_truncated_block(planes, from.size() - used);
  if (planes > 0) read_planes(from.subspan(used, planes), block.low_bits(), lower);
  used += planes;
  block.add(codes, lower, scale, sum);
  if (!block.escapes()) return used;
  for_each_escape(codes, [&](std::size_t i) {
    if (from.size() - used < sizeof(float)) fail_truncated_block(sizeof(float), from.size() - used);
    const auto value = load<float>(from.data() + used);
    if (!std::isfinite(value))
      fail(Kind::wire,
           "rate payload: expected finite values, found {}; check the network and memory", value);
    sum[i] += scale * value;
    used += sizeof(float);
  });
  return used;
}

}  // namespace eqt::codec
