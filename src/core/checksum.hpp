// SPDX-License-Identifier: Apache-2.0
// One hash for bytes that leave this process and come back: as messages or as files.

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace eqt {

/// XXH3, 64 bits (github.com/Cyan4973/xxHash). It detects damage, not an attacker's change. To hash
/// several pieces as one, pass the hash of the pieces before as the seed of the next.
std::uint64_t checksum(std::span<const std::byte> bytes, std::uint64_t seed = 0) noexcept;

/// Bytes that the checksum of a message adds to it.
inline constexpr std::size_t kChecksumBytes = sizeof(std::uint64_t);

}  // namespace eqt
