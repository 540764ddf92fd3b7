// SPDX-License-Identifier: Apache-2.0
// The passes of a dead-zone quantizer over its values. Compiled once per instruction set and chosen
// at run time; the bits are the same on each: fp32 operations in a stated order, never fused.

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "codec/levels/level_table.hpp"

namespace eqt::codec {

/// residual[i] += gradient[i].
/// @return the largest magnitude of the result, as the bits of a float
std::uint32_t compensate(std::span<const float> gradient, std::span<float> residual);

/// Bins of magnitudes, by their upper bits.
struct BinRange {
  int shift = 0;
  std::uint32_t first = 0, last = 0;  // last - first < 256
};

/// bins[i] = clamp(bits of |values[i]| >> shift, first, last) - first.
/// @pre bins.size() == values.size()
void magnitude_bins(std::span<const float> values, const BinRange& range,
                    std::span<std::uint8_t> bins);

/// Values of a sample: those of one quarter of each 64, and the quarter moves by one from group to
/// group, so that each column of a matrix is met. Values after the last whole group have no part.
inline constexpr std::size_t kSampled = 16, kSampledOf = 64;

/// magnitude_bins() of a sample.
/// @pre bins.size() == values.size() / kSampledOf * kSampled
void sampled_bins(std::span<const float> values, const BinRange& range,
                  std::span<std::uint8_t> bins);

/// codes[i] = min(trunc(|v| inverse + offset), escape), with the sign bit of v if that is above 0.
/// @pre |v| inverse is finite; 0 <= offset < 1; escape < 128; codes.size() == values.size()
void quantize_dead_zone(std::span<const float> values, float inverse, float offset,
                        std::uint32_t escape, std::span<LevelCode> codes);

/// An index h 2^s + l - 2^(s-1), |h| < escape, as the code of h with its sign, and l in
/// 0 ... 2^s - 1. The code `escape` stands for all larger |h|.
struct SplitIndex {
  int low_bits = 1;  // s, 1 to 7
  std::uint32_t escape = 15;
};

/// The indices of values, rounded to nearest: trunc(min(|v| inverse + 1/2, 2^20)), with v's sign.
/// @pre |v| inverse is finite; codes.size() == lower.size() == values.size()
void quantize_split(std::span<const float> values, float inverse, const SplitIndex& split,
                    std::span<LevelCode> codes, std::span<std::uint8_t> lower);

/// sum[i] += scale * (index i * step), except for escapes.
/// @pre codes.size() == lower.size() == sum.size()
void add_split(std::span<const LevelCode> codes, std::span<const std::uint8_t> lower,
               const SplitIndex& split, float step, float scale, std::span<float> sum);

/// Bytes of a plane: a bit for each of `count` values, and zeros up to a whole byte.
constexpr std::size_t plane_bytes(std::size_t count) noexcept { return (count + 7) / 8; }

/// Writes bit p of lower[i] to bit i mod 8 of byte i / 8 of plane p, for planes 0 ... count - 1.
/// @pre planes.size() == count * plane_bytes(lower.size())
void write_planes(std::span<const std::uint8_t> lower, int count, std::span<std::byte> planes);

/// The inverse of write_planes().
void read_planes(std::span<const std::byte> planes, int count, std::span<std::uint8_t> lower);

}  // namespace eqt::codec
