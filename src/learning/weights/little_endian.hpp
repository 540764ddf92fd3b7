// SPDX-License-Identifier: Apache-2.0
// Numbers in files. Private to this room.

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace eqt::weights {

/// The little-endian number of `count` bytes at `at`. @pre they are there, at most 8
inline std::uint64_t little_endian(std::span<const std::byte> bytes, std::size_t at,
                                   std::size_t count) {
  std::uint64_t value = 0;
  for (std::size_t i = count; i-- > 0;)
    value = value << 8 | std::to_integer<std::uint64_t>(bytes[at + i]);
  return value;
}

}  // namespace eqt::weights
