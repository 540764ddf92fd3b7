// SPDX-License-Identifier: Apache-2.0
// Whether ranks fall into two groups that only talk across.

#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "core/layout.hpp"
#include "topology/mixing_matrix.hpp"

namespace eqt::topology {

struct TwoColours {
  /// By rank: 0 or 1; rank 0 has 0.
  std::vector<int> colour;
  /// An edge between two ranks of one colour, if there is one: it closes an odd cycle, and no
  /// other choice of colours does better.
  std::optional<std::pair<Rank, Rank>> odd_edge;
};

/// Colours ranks by their distance from rank 0, edges taken in both directions.
TwoColours two_colours(const MixingMatrix& matrix);

/// Whoever sends to a rank also receives from it; weights may differ.
bool is_undirected(const MixingMatrix& matrix);

}  // namespace eqt::topology
