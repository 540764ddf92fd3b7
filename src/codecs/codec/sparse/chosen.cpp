// SPDX-License-Identifier: Apache-2.0
// Source   R. W. Floyd's algorithm F2, in J. Bentley, Programming Pearls, CACM 30 (1987): for
//          j = n - k ... n - 1, choose a random index up to j, or j itself if that one is taken

#include "codec/sparse/chosen.hpp"

#include <algorithm>

#include "codec/sparse/scratch.hpp"
#include "core/error.hpp"
#include "core/random.hpp"

namespace eqt::codec {

std::span<const std::uint64_t> choose(std::uint64_t key, std::size_t k, std::size_t count,
                                      Workspace& workspace) {
  EQT_CHECK(k <= count && count <= UINT32_MAX, "{} of {} indices", k, count);
  const auto words = workspace.array(kChosenBits, (count + 63) / 64);
  std::fill(words.begin(), words.end(), std::uint64_t{0});
  const RandomStream stream({.run_seed = key});
  for (std::size_t j = count - k; j < count; ++j) {
    const std::uint64_t drawn = stream.bounded(static_cast<std::uint32_t>(j), j + 1);
    const bool taken = (words[drawn / 64] >> (drawn % 64) & 1) != 0;
    const std::uint64_t index = taken ? j : drawn;
    words[index / 64] |= std::uint64_t{1} << (index % 64);
  }
  return words;
}

}  // namespace eqt::codec
