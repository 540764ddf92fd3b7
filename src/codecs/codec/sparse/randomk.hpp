// SPDX-License-Identifier: Apache-2.0
// The places of random-k: a uniformly random set of k of n indices, as a bitmap.

#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

#include "core/workspace.hpp"

namespace eqt::codec {

/// Bit i mod 64 of word i / 64 says whether index i is chosen. Every set of k is equally likely, up
/// to 2^-31 per draw, and depends only on (key, k, count). In kChosenBits (scratch.hpp).
/// @pre k <= count < 2^32
std::span<const std::uint64_t> choose(std::uint64_t key, std::size_t k, std::size_t count,
                                      Workspace& workspace);

/// Calls take(index) for the bits set in `words`, ascending; bit 0 of the first is index `begin`.
template <typename Take>
void for_each_chosen(std::span<const std::uint64_t> words, std::size_t begin, Take take) {
  for (const std::uint64_t word : words) {
    for (std::uint64_t left = word; left != 0; left &= left - 1) {
      take(begin + static_cast<std::size_t>(std::countr_zero(left)));
    }
    begin += 64;
  }
}

}  // namespace eqt::codec
