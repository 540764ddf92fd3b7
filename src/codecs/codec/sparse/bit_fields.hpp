// SPDX-License-Identifier: Apache-2.0
// Streams of bits of a sparse payload: bit j is bit j mod 8 of byte j / 8, bit 0 the least
// significant, and zero bits fill the last byte.

#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "codec/bytes.hpp"

namespace eqt::codec {

/// Collects bits, the first one lowest, and writes whole words.
class LowFirstWriter {
 public:
  explicit LowFirstWriter(std::byte* to) : begin_(to), at_(to) {}

  /// @pre word < 2^length, length <= 32
  void put(std::uint64_t word, int length) {
    pending_ |= word << count_;
    count_ += length;
    if (count_ >= 32) {
      store(at_, static_cast<std::uint32_t>(pending_));
      at_ += 4;
      pending_ >>= 32;
      count_ -= 32;
    }
  }

  /// Writes the bits that are left.
  /// @return bytes written in all
  std::size_t finish() {
    for (; count_ > 0; count_ -= 8, pending_ >>= 8)
      store(at_++, static_cast<std::uint8_t>(pending_));
    return static_cast<std::size_t>(at_ - begin_);
  }

 private:
  std::byte* begin_;
  std::byte* at_;
  std::uint64_t pending_ = 0;
  int count_ = 0;  // below 32 between calls
};

/// 8 bytes from `at` on, zeros beyond the end.
inline std::uint64_t load_word(std::span<const std::byte> bytes, std::size_t at) {
  if (at + 8 <= bytes.size()) [[likely]]
    return load<std::uint64_t>(bytes.data() + at);
  std::uint64_t word = 0;
  if (at < bytes.size()) std::memcpy(&word, bytes.data() + at, bytes.size() - at);
  return word;
}

/// Bytes of `count` fields of `bits` bits.
inline std::size_t field_bytes(std::size_t count, int bits) {
  return (count * static_cast<std::size_t>(bits) + 7) / 8;
}

/// Returns true if the bits after `count` fields of `bits` bits are zero.
/// @pre bytes.size() == field_bytes(count, bits)
inline bool ends_in_zeros(std::span<const std::byte> bytes, std::size_t count, int bits) {
  const std::size_t padding = bytes.size() * 8 - count * static_cast<std::size_t>(bits);
  return padding == 0 || std::to_integer<unsigned>(bytes.back()) >> (8 - padding) == 0;
}

}  // namespace eqt::codec
