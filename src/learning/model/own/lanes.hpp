// SPDX-License-Identifier: Apache-2.0
// A batch is computed in lanes: equal parts of neighbouring samples. Sums over a batch are those of
// its lanes, in their order, so that their bits do not depend on which threads have computed them.

#pragma once

#include <cstddef>

namespace eqt::model::precision {

inline constexpr std::size_t kMostLanes = 4;

/// Returns 4, 2 or 1 lanes, the most of these that divide the samples into equal parts.
constexpr std::size_t lanes_for(std::size_t samples) {
  std::size_t lanes = kMostLanes;
  while (samples % lanes != 0) lanes /= 2;
  return lanes;
}

}  // namespace eqt::model::precision
