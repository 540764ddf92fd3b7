// One hash for bytes that leave this process and come back, by whatever way.

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace eqt {

/// XXH3, 64 bits (github.com/Cyan4973/xxHash). It tells damage, never an attacker's change.
/// A run of pieces is hashed by giving each the hash of those before it as its seed.
std::uint64_t checksum(std::span<const std::byte> bytes, std::uint64_t seed = 0) noexcept;

/// What a message's checksum adds to it on its way.
inline constexpr std::size_t kChecksumBytes = sizeof(std::uint64_t);

}  // namespace eqt
