// SPDX-License-Identifier: Apache-2.0
#include "core/checksum.hpp"

#ifdef EQT_XXHASH_DISPATCH
// Chooses AVX2 or AVX-512 at run time, which is twice as fast as the build's instruction set.
#include <xxh_x86dispatch.h>
#else
#include <xxhash.h>
#endif

namespace eqt {

std::uint64_t checksum(std::span<const std::byte> bytes, std::uint64_t seed) noexcept {
  // The library chooses an instruction set in its first call, without a lock.
  [[maybe_unused]] static const std::uint64_t settled = XXH3_64bits_withSeed("", 0, 0);
  return XXH3_64bits_withSeed(bytes.data(), bytes.size(), seed);
}

}  // namespace eqt
