// SPDX-License-Identifier: Apache-2.0
#include "codec/rate/reconstruction.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

#include "codec/bytes.hpp"
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

void require_magnitudes(CodecId id, float largest, std::span<const float> values,
                        std::uint64_t first_index) {
  if (largest <= kLargestMagnitude) return;
  const auto bad = std::find_if(values.begin(), values.end(),
                                [](float v) { return !(std::abs(v) <= kLargestMagnitude); });
  fail(Kind::diverged,
       "{}: expected finite values of magnitude at most 2^100 with compressor.rounding "
       "\"nearest\", found {} at index {} of the slice; try a smaller learning rate",
       codec_name(id), *bad, first_index + static_cast<std::uint64_t>(bad - values.begin()));
}

void fail_truncated_block(std::size_t expected, std::size_t found) {
  fail(Kind::wire,
       "rate payload: expected {} more bytes in a block, found {}; check the network and memory",
       expected, found);
}

void fail_rest(std::size_t bytes, std::size_t values) {
  fail(Kind::wire,
       "rate payload: expected its end after {} values, found {} more bytes; check the network and "
       "memory",
       values, bytes);
}

}  // namespace eqt::codec
