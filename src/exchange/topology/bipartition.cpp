// SPDX-License-Identifier: Apache-2.0
#include "topology/bipartition.hpp"

#include <algorithm>
#include <cstddef>

namespace eqt::topology {
namespace {

constexpr int kUnvisited = -1;

/// Breadth first, so that a rank's side is its distance modulo 2.
class Colouring {
 public:
  explicit Colouring(const MixingMatrix& matrix) : matrix_(matrix) {
    result.side.assign(static_cast<std::size_t>(matrix.ranks()), kUnvisited);
  }

  void spread_from(Rank first) {
    if (of(first) != kUnvisited) return;
    of(first) = 0;
    queue_.assign(1, first);
    for (std::size_t next = 0; next < queue_.size(); ++next) {
      const Rank rank = queue_[next];
      for (const Neighbour& to : matrix_.out_neighbours(rank)) meet(rank, to.rank);
      for (const Neighbour& from : matrix_.in_neighbours(rank)) meet(rank, from.rank);
    }
  }

  Bipartition result;

 private:
  int& of(Rank rank) { return result.side[static_cast<std::size_t>(rank)]; }

  void meet(Rank rank, Rank neighbour) {
    if (of(neighbour) == kUnvisited) {
      of(neighbour) = 1 - of(rank);
      queue_.push_back(neighbour);
    } else if (of(neighbour) == of(rank) && !result.odd_edge) {
      result.odd_edge = std::minmax(rank, neighbour);
    }
  }

  const MixingMatrix& matrix_;
  std::vector<Rank> queue_;
};

}  // namespace

Bipartition bipartition_of(const MixingMatrix& matrix) {
  Colouring colouring(matrix);
  for (Rank rank = 0; rank < matrix.ranks(); ++rank) colouring.spread_from(rank);
  return std::move(colouring.result);
}

bool is_undirected(const MixingMatrix& matrix) {
  for (Rank rank = 0; rank < matrix.ranks(); ++rank) {
    const auto out = matrix.out_neighbours(rank), in = matrix.in_neighbours(rank);
    if (!std::ranges::equal(out, in, {}, &Neighbour::rank, &Neighbour::rank)) return false;
  }
  return true;
}

}  // namespace eqt::topology
