// SPDX-License-Identifier: Apache-2.0
#include "codec/rate/nearest_blocks.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

#include "codec/bytes.hpp"
#include "codec/levels/level_kernels.hpp"
#include "codec/rate/dead_zone_kernels.hpp"
#include "core/error.hpp"

namespace eqt::codec {
namespace {

constexpr unsigned kUnits = 64;  // of a step, for centroids

unsigned units(double steps) {
  return static_cast<unsigned>(std::floor(steps * double{kUnits} + 0.5));
}

float steps(unsigned centroid) { return static_cast<float>(centroid) / kUnits; }

}  // namespace

Reconstruction::Reconstruction(const DeadZone& zone)
    : step(zone.step), first(units(zone.first)), second(units(zone.second)) {}

std::size_t Reconstruction::write(std::byte* to) const {
  store(to, static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(step) >> 16));
  if (step == 0) return kStepBytes;
  to[2] = static_cast<std::byte>(first);
  to[3] = static_cast<std::byte>(second);
  return kBytes;
}

Reconstruction Reconstruction::read(std::span<const std::byte> from) {
  if (from.size() < kStepBytes) fail_truncated_block(kStepBytes, from.size());
  Reconstruction block;
  block.step = std::bit_cast<float>(std::uint32_t{load<std::uint16_t>(from.data())} << 16);
  if (std::bit_cast<std::uint32_t>(block.step) == 0) return block;
  if (from.size() < kBytes) fail_truncated_block(kBytes, from.size());
  block.first = std::to_integer<unsigned>(from[2]);
  block.second = std::to_integer<unsigned>(from[3]);
  if (!(block.step > 0) || block.step > 2 * kLargestMagnitude)
    fail(Kind::wire,
         "rate payload: expected a step above 0 and at most 2^101, found {}; check the network "
         "and memory",
         block.step);
  if (block.first == 0 || block.second <= block.first)
    fail(Kind::wire,
         "rate payload: expected centroids that rise from above 0, found {}/64 and {}/64; check "
         "the network and memory",
         block.first, block.second);
  return block;
}

void Reconstruction::fill(float scale, std::uint32_t last, std::size_t sign,
                          std::span<float> value) const {
  value[0] = value[sign] = 0;
  for (std::uint32_t j = 1; j <= last; ++j) {
    value[j] = scale * (step * (j == 1 ? steps(first) : steps(second) + static_cast<float>(j - 2)));
    value[sign + j] = -value[j];
  }
}

void fail_truncated_block(std::size_t expected, std::size_t found) {
  fail(Kind::wire,
       "rate payload: expected {} more bytes in a block, found {}; check the network and memory",
       expected, found);
}

Properties NearestBlocks::properties() const noexcept {
  return {.needs_feedback = true,
          .largest = kLargestMagnitude,
          .granule = block_,
          .concatenates = true};
}

std::size_t NearestBlocks::max_payload_bytes(std::size_t count) const {
  const std::size_t last = count % block_;
  return count / block_ * max_block_bytes(block_) + (last > 0 ? max_block_bytes(last) : 0);
}

std::size_t NearestBlocks::write_any(std::span<const float> values, std::uint64_t first_index,
                                     float largest, Workspace& workspace,
                                     std::span<std::byte> to) const {
  if (!(largest <= kLargestMagnitude)) {
    const auto bad = std::find_if(values.begin(), values.end(),
                                  [](float v) { return !(std::abs(v) <= kLargestMagnitude); });
    fail(Kind::diverged,
         "{}: expected finite values of magnitude at most 2^100 with compressor.rounding "
         "\"nearest\", found {} at index {} of the slice; try a smaller learning rate",
         codec_name(id_), *bad, first_index + static_cast<std::uint64_t>(bad - values.begin()));
  }
  if (largest < kSmallestMagnitude) return Reconstruction().write(to.data());
  return encode_block(values, first_index, largest, workspace, to);
}

std::size_t NearestBlocks::encode(std::span<const float> values, const EncodeContext& context,
                                  Workspace& workspace, std::span<std::byte> payload) const {
  require_room(payload, max_payload_bytes(values.size()), values.size());
  std::size_t used = 0;
  for (std::size_t start = 0; start < values.size(); start += block_) {
    const auto block = values.subspan(start, std::min(block_, values.size() - start));
    used += write_any(block, context.first_index + start,
                      std::bit_cast<float>(largest_magnitude_bits(block)), workspace,
                      payload.subspan(used));
  }
  return used;
}

std::size_t NearestBlocks::encode_with_feedback(std::span<const float> gradient,
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
    const std::size_t bytes = write_any(block, context.first_index + start, largest, workspace, to);
    if (largest >= kSmallestMagnitude) subtract_block(to.first(bytes), workspace, block);
    used += bytes;
  }
  return used;
}

void NearestBlocks::decode_add(std::span<const std::byte> payload, float scale,
                               Workspace& workspace, std::span<float> sum) const {
  for (std::size_t start = 0; start < sum.size(); start += block_)
    payload = payload.subspan(decode_block(
        payload, scale, workspace, sum.subspan(start, std::min(block_, sum.size() - start))));
  if (!payload.empty())
    fail(Kind::wire,
         "rate payload: expected its end after {} values, found {} more bytes; check the network "
         "and memory",
         sum.size(), payload.size());
}

}  // namespace eqt::codec
