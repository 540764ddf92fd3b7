// SPDX-License-Identifier: Apache-2.0
// Places in one block of memory for arrays that are needed at different times.

#pragma once

#include <cstddef>
#include <vector>

namespace eqt::model::precision {

inline constexpr std::size_t kArenaAlignment = 64;  // [bytes]

struct ArenaItem {
  std::size_t bytes = 0;
  int first = 0, last = 0;  // moments at which it is in use, both included
};

struct ArenaPlan {
  std::vector<std::size_t> offsets;  // by item, multiples of kArenaAlignment
  std::size_t bytes = 0;             // in all
};

/// The largest item first, each at the lowest place where no item of overlapping moments is.
ArenaPlan place_items(const std::vector<ArenaItem>& items);

}  // namespace eqt::model::precision
