// SPDX-License-Identifier: Apache-2.0
// The least that 8-bit training changes: its weights.

#pragma once

#include <algorithm>
#include <cmath>

#include "model/replica.hpp"

namespace eqt::test {

/// Rounds convolutions, and matrices of transformers' layers, to 8 bits, with a scale for each
/// output channel.
inline void round_weights(model::Replica& replica) {
  for (const TensorSlice& slice : replica.layout()) {
    const bool in_layer = slice.shape.size() == 2 && slice.name.starts_with("blocks.");
    if (slice.shape.size() != 4 && !in_layer) continue;
    const auto weights = replica.parameters().subspan(slice.offset, slice.count);
    const std::size_t row = slice.count / static_cast<std::size_t>(slice.shape[0]);
    for (std::size_t o = 0; o < slice.count; o += row) {
      float largest = 0;
      for (const float w : weights.subspan(o, row)) largest = std::max(largest, std::abs(w));
      for (float& w : weights.subspan(o, row))
        w = std::nearbyint(w / largest * 127) * largest / 127;
    }
  }
}

}  // namespace eqt::test
