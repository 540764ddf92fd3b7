// SPDX-License-Identifier: Apache-2.0
#include "codec/rate/whole_bits.hpp"

#include "codec/levels/fixed_coding.hpp"
#include "codec/rate/dead_zone_kernels.hpp"
#include "core/error.hpp"

namespace eqt::codec {
namespace {

// A level codec's format version 4, with the bit that the reconstruction is in the payload.
constexpr std::uint8_t kVersion = 0x24;
constexpr int kMostSampled = 4;  // bits
// Slots of the workspace.
constexpr ScratchArray<LevelCode> kCodes{0};

}  // namespace

WholeBits::WholeBits(const CompressorRow& row, const CompressorOptions& options)
    : NearestBlocks(row.id, options.bucket_size), bits_(options.bits) {
  EQT_CHECK(bits_ >= 2 && bits_ <= 8, "{} whole bits", bits_);
}

std::uint8_t WholeBits::format_version() const noexcept { return kVersion; }

std::size_t WholeBits::max_block_bytes(std::size_t count) const {
  return Reconstruction::kBytes + fixed_bytes(count, bits_);
}

std::size_t WholeBits::encode_block(std::span<const float> values, std::uint64_t /*first_index*/,
                                    float largest, Workspace& workspace,
                                    std::span<std::byte> to) const {
  thread_local MagnitudeHistogram magnitudes;
  // Many levels reach far into the tail, of which a sample has too little.
  bits_ > kMostSampled ? magnitudes.count(values, largest) : magnitudes.sample(values, largest);
  const auto last = (std::uint32_t{1} << (bits_ - 1)) - 1;
  const DeadZone zone = magnitudes.of_least_error(last);
  const std::size_t used = Reconstruction(zone).write(to.data());
  const auto codes = workspace.array(kCodes, values.size());
  quantize_dead_zone(values, 1 / zone.step, 1 - zone.zone, last, codes);
  const std::size_t packed = fixed_bytes(values.size(), bits_);
  pack_fixed(codes, bits_, to.subspan(used, packed));
  return used + packed;
}

void WholeBits::subtract_block(std::span<const std::byte> block, Workspace& workspace,
                               std::span<float> values) const {
  decode_block(block, -1, workspace, values);
}

std::size_t WholeBits::decode_block(std::span<const std::byte> from, float scale,
                                    Workspace& /*workspace*/, std::span<float> sum) const {
  const Reconstruction block = Reconstruction::read(from);
  if (block.step == 0) return block.bytes();
  const std::size_t bytes = block.bytes() + fixed_bytes(sum.size(), bits_);
  if (from.size() < bytes) fail_truncated_block(bytes, from.size());
  alignas(64) float value[256] = {};
  const std::size_t sign = std::size_t{1} << (bits_ - 1);
  block.fill(scale, static_cast<std::uint32_t>(sign - 1), sign, value);
  const PackedBucket bucket = {from.data() + block.bytes(), value};
  add_fixed({&bucket, 1}, bits_, sum);
  return bytes;
}

}  // namespace eqt::codec
