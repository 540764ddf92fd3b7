// SPDX-License-Identifier: Apache-2.0
#include "codec/rate/whole_bits.hpp"

#include <algorithm>
#include <bit>

#include "codec/bytes.hpp"
#include "codec/levels/fixed_coding.hpp"
#include "codec/levels/level_kernels.hpp"
#include "codec/rate/dead_zone_kernels.hpp"
#include "codec/rate/reconstruction.hpp"
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
    : id_(row.id), bits_(options.bits), block_(options.bucket_size) {
  EQT_CHECK(bits_ >= 2 && bits_ <= 8, "{} whole bits", bits_);
}

std::uint8_t WholeBits::format_version() const noexcept { return kVersion; }

Properties WholeBits::properties() const noexcept {
  return {.needs_feedback = true,
          .largest = kLargestMagnitude,
          .granule = block_,
          .concatenates = true};
}

std::size_t WholeBits::max_payload_bytes(std::size_t count) const {
  const std::size_t last = count % block_;
  return count / block_ * (Reconstruction::kBytes + fixed_bytes(block_, bits_)) +
         (last > 0 ? Reconstruction::kBytes + fixed_bytes(last, bits_) : 0);
}

std::size_t WholeBits::encode(std::span<const float> values, const EncodeContext& context,
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

std::size_t WholeBits::encode_with_feedback(std::span<const float> gradient,
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
    used += encode_block(block, context.first_index + start, largest, workspace, to);
    decode_block(to, -1, block);
  }
  return used;
}

std::size_t WholeBits::encode_block(std::span<const float> values, std::uint64_t first_index,
                                    float largest, Workspace& workspace,
                                    std::span<std::byte> to) const {
  require_magnitudes(id_, largest, values, first_index);
  if (largest < kSmallestMagnitude) return Reconstruction().write(to.data());
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

// Adds the values of one block. Returns its bytes.
std::size_t WholeBits::decode_block(std::span<const std::byte> from, float scale,
                                    std::span<float> sum) const {
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

void WholeBits::decode_add(std::span<const std::byte> payload, float scale,
                           Workspace& /*workspace*/, std::span<float> sum) const {
  for (std::size_t start = 0; start < sum.size(); start += block_)
    payload = payload.subspan(
        decode_block(payload, scale, sum.subspan(start, std::min(block_, sum.size() - start))));
  if (!payload.empty()) fail_rest(payload.size(), sum.size());
}

}  // namespace eqt::codec
