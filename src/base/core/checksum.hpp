// SPDX-License-Identifier: Apache-2.0
// The hash of messages and files.

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace eqt {

/// XXH3, 64 bits (github.com/Cyan4973/xxHash). It detects damage, not manipulation. To hash several
/// parts as one, pass the hash of the previous parts as the seed for the next one.
std::uint64_t checksum(std::span<const std::byte> bytes, std::uint64_t seed = 0) noexcept;

/// Bytes that the checksum of a message adds to it.
inline constexpr std::size_t kChecksumBytes = sizeof(std::uint64_t);

}  // namespace eqt
