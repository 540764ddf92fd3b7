// SPDX-License-Identifier: Apache-2.0
// Passes over integer codes, compiled once per instruction set and chosen at run time; the same
// bits on each of them.
//
// Packed codes: u = code + offset has `width` bits. Blocks of 64 codes are `width` planes of 8
// bytes, plane j with bit j of every u, the first code in the lowest bit of the first byte. The
// planes of a last block of m < 64 codes have ceil(m / 8) bytes, padded with zero bits.

#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

namespace eqt::codec {

inline constexpr std::size_t kPlaneCodes = 64;
inline constexpr int kMaxPlanes = 16;

/// Bits of a code from -limit to limit: ceil(log2(2 limit + 1)).
constexpr int code_width(std::uint32_t limit) noexcept {
  return static_cast<int>(std::bit_width(2 * limit));
}

constexpr std::size_t packed_bytes(std::size_t count, int width) noexcept {
  return static_cast<std::size_t>(width) *
         (count / kPlaneCodes * (kPlaneCodes / 8) + (count % kPlaneCodes + 7) / 8);
}

/// Packs codes from -limit to limit in code_width(limit) bits with the offset `limit`.
/// @pre to.size() == packed_bytes(codes.size(), code_width(limit)); limit <= 127 (int8), 32767
void pack_codes(std::span<const std::int8_t> codes, std::uint32_t limit, std::span<std::byte> to);
void pack_codes(std::span<const std::int16_t> codes, std::uint32_t limit, std::span<std::byte> to);

/// The inverse.
/// @return false if a code is above `limit` or a padding bit is set
/// @pre as pack_codes()
[[nodiscard]] bool unpack_codes(std::span<const std::byte> from, std::uint32_t limit,
                                std::span<std::int8_t> codes);
[[nodiscard]] bool unpack_codes(std::span<const std::byte> from, std::uint32_t limit,
                                std::span<std::int16_t> codes);

/// sums[i] += codes[i], modulo 2^8 or 2^16.
void add_codes(std::span<const std::int8_t> codes, std::span<std::int8_t> sums);
void add_codes(std::span<const std::int8_t> codes, std::span<std::int16_t> sums);

/// values[i] = step * codes[i].
void scale_codes(std::span<const std::int8_t> codes, float step, std::span<float> values);
void scale_codes(std::span<const std::int16_t> codes, float step, std::span<float> values);

/// values[i] -= step * codes[i].
void subtract_scaled(std::span<const std::int8_t> codes, float step, std::span<float> values);

/// In place: index + sign bit 7 (level_kernels.hpp) becomes the integer.
void signed_from_magnitudes(std::span<std::int8_t> codes);

}  // namespace eqt::codec
