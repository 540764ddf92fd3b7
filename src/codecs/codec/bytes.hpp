// SPDX-License-Identifier: Apache-2.0
// Bytes of payloads: little-endian fields, whatever the host's byte order and alignment, and checks
// for codecs whose payloads have a fixed length, one message each.

#pragma once

#include <bit>
#include <cstddef>
#include <cstring>
#include <span>
#include <string_view>
#include <type_traits>

#include "core/error.hpp"

namespace eqt::codec {

static_assert(std::endian::native == std::endian::little,
              "big-endian hosts need byte swaps in load and store");

template <typename T>
T load(const std::byte* from) noexcept {
  static_assert(std::is_arithmetic_v<T>);
  T value;
  std::memcpy(&value, from, sizeof(T));
  return value;
}

template <typename T>
void store(std::byte* to, T value) noexcept {
  static_assert(std::is_arithmetic_v<T>);
  std::memcpy(to, &value, sizeof(T));
}

/// @throws Error{bug} if `payload` has no room for the `bytes` of `count` values
inline void require_room(std::span<const std::byte> payload, std::size_t bytes, std::size_t count) {
  EQT_CHECK(payload.size() >= bytes, "a payload buffer of {} bytes for {} values", payload.size(),
            count);
}

/// @throws Error{wire} unless `payload` has exactly the `bytes` of `count` values
inline void require_length(std::string_view compressor, std::span<const std::byte> payload,
                           std::size_t bytes, std::size_t count) {
  if (payload.size() == bytes) return;
  fail(Kind::wire,
       "compressor {}: expected a payload of {} bytes for {} values, found {}; the ranks run "
       "different configs or builds",
       compressor, bytes, count, payload.size());
}

/// prefix_bytes() for codecs whose values have a fixed number of bytes.
/// @return `bytes` if `payload` has as many, else 0
inline std::size_t prefix_of_fixed(std::span<const std::byte> payload, std::size_t bytes) {
  return payload.size() >= bytes ? bytes : 0;
}

/// @throws Error{wire} if a bit after the first `count` is set
inline void require_clear_end(std::string_view compressor, std::span<const std::byte> plane,
                              std::size_t count) {
  if (count % 8 == 0 || (plane.back() >> (count % 8)) == std::byte{0}) return;
  fail(Kind::wire,
       "compressor {}: expected zeros after the last of {} signs, found the byte {:#04x}; check "
       "the network and memory",
       compressor, count, std::to_integer<int>(plane.back()));
}

}  // namespace eqt::codec
