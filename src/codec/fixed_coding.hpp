// Container W0: every code in `bits` bits, sign above index, little-endian bit stream.

#pragma once

#include <cstddef>
#include <span>

#include "codec/level_table.hpp"

namespace eqt::codec {

/// Bytes of `count` codes of `bits` bits.
constexpr std::size_t fixed_bytes(std::size_t count, int bits) noexcept {
  return (count * static_cast<std::size_t>(bits) + 7) / 8;
}

/// Packs sign << (bits - 1) | index; code i fills the stream's bits i * bits ..., lowest first.
/// @pre packed.size() == fixed_bytes(codes.size(), bits); indices fit; codes.size() is a multiple
/// of 8 unless these are the bucket's last
void pack_fixed(std::span<const LevelCode> codes, int bits, std::span<std::byte> packed);

/// The inverse, for codes.size() codes.
void unpack_fixed(std::span<const std::byte> packed, int bits, std::span<LevelCode> codes);

}  // namespace eqt::codec
