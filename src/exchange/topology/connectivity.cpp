// SPDX-License-Identifier: Apache-2.0
#include "topology/connectivity.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <numeric>

namespace eqt::topology {
namespace {

constexpr int kUnreached = -1;

/// Edges from rank 0 to every rank, breadth first; kUnreached where none lead.
std::vector<int> distances(const Adjacency& edges) {
  std::vector<int> distance(edges.size(), kUnreached);
  std::vector<Rank> queue = {0};
  distance[0] = 0;
  for (std::size_t next = 0; next < queue.size(); ++next) {
    const auto here = static_cast<std::size_t>(queue[next]);
    for (const Rank to : edges[here]) {
      int& there = distance[static_cast<std::size_t>(to)];
      if (there != kUnreached) continue;
      there = distance[here] + 1;
      queue.push_back(to);
    }
  }
  return distance;
}

Adjacency reversed(const Adjacency& edges) {
  Adjacency back(edges.size());
  for (std::size_t from = 0; from < edges.size(); ++from)
    for (const Rank to : edges[from])
      back[static_cast<std::size_t>(to)].push_back(static_cast<Rank>(from));
  return back;
}

Rank first_unreached(const Adjacency& edges) {
  const std::vector<int> distance = distances(edges);
  const auto found = std::ranges::find(distance, kUnreached);
  return found == distance.end() ? -1 : static_cast<Rank>(found - distance.begin());
}

}  // namespace

Adjacency edges_of(const MixingMatrix& matrix) {
  Adjacency edges(static_cast<std::size_t>(matrix.ranks()));
  for (Rank from = 0; from < matrix.ranks(); ++from) {
    auto& list = edges[static_cast<std::size_t>(from)];
    if (matrix.self_weight(from) > 0) list.push_back(from);
    for (const Neighbour& to : matrix.out_neighbours(from)) list.push_back(to.rank);
  }
  return edges;
}

std::string why_unconnected(const Adjacency& edges) {
  const Rank away = first_unreached(edges);
  if (away >= 0) return fmt::format("no edges lead from rank 0 to rank {}", away);
  const Rank back = first_unreached(reversed(edges));
  return back < 0 ? "" : fmt::format("no edges lead from rank {} to rank 0", back);
}

bool is_strongly_connected(const Adjacency& edges) { return why_unconnected(edges).empty(); }

Adjacency composed(std::span<const Adjacency> rounds) {
  Adjacency result = rounds.front();
  for (const Adjacency& round : rounds.subspan(1)) {
    for (std::vector<Rank>& reached : result) {
      std::vector<bool> after(round.size(), false);
      for (const Rank here : reached)
        for (const Rank to : round[static_cast<std::size_t>(here)])
          after[static_cast<std::size_t>(to)] = true;
      reached.clear();
      for (std::size_t to = 0; to < after.size(); ++to)
        if (after[to]) reached.push_back(static_cast<Rank>(to));
    }
  }
  return result;
}

int cycle_period(const Adjacency& edges) {
  const std::vector<int> distance = distances(edges);
  int period = 0;
  for (std::size_t from = 0; from < edges.size(); ++from)
    for (const Rank to : edges[from])
      period = std::gcd(period, distance[from] + 1 - distance[static_cast<std::size_t>(to)]);
  return period;
}

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
