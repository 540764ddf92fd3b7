// SPDX-License-Identifier: Apache-2.0
#include "topology/graphs.hpp"

#include <fmt/ranges.h>

#include <bit>
#include <cmath>

#include "core/error.hpp"

namespace eqt::topology {
namespace {

/// The number of rows of the squarest shape with sides of at least 2; 0 for primes and below 4.
int squarest_rows(int ranks) {
  for (auto rows = static_cast<int>(std::sqrt(ranks)); rows >= 2; --rows)
    if (ranks % rows == 0) return rows;
  return 0;
}

std::vector<int> divisors(int ranks, int least) {
  std::vector<int> found;
  for (int rows = least; rows <= ranks / 2; ++rows)
    if (ranks % rows == 0) found.push_back(rows);
  return found;
}

/// "6 or 8": the nearest numbers of ranks that have a shape.
std::string nearest_sizes(int ranks) {
  int below = ranks - 1, above = ranks + 1;
  while (below >= 4 && squarest_rows(below) == 0) --below;
  while (squarest_rows(above) == 0) ++above;
  return below >= 4 ? fmt::format("{} or {}", below, above) : fmt::format("{}", above);
}

/// The rank of row i, column j; both may be one outside, which wraps around.
Rank place(Shape shape, int i, int j) {
  return (i + shape.rows) % shape.rows * shape.columns + (j + shape.columns) % shape.columns;
}

constexpr Shape kSteps[] = {{-1, 0}, {1, 0}, {0, -1}, {0, 1}};

Links lattice_links(Shape shape, bool wraps) {
  Links links;
  for (int i = 0; i < shape.rows; ++i) {
    for (int j = 0; j < shape.columns; ++j) {
      for (const auto [down, right] : kSteps) {
        const int to_i = i + down, to_j = j + right;
        const bool inside = to_i >= 0 && to_i < shape.rows && to_j >= 0 && to_j < shape.columns;
        if (inside || wraps) links.push_back({place(shape, i, j), place(shape, to_i, to_j)});
      }
    }
  }
  return links;
}

}  // namespace

Links ring_links(int ranks, bool directed) {
  Links links;
  for (Rank r = 0; ranks > 1 && r < ranks; ++r) {
    links.push_back({r, (r + 1) % ranks});
    if (!directed && ranks > 2) links.push_back({r, (r + ranks - 1) % ranks});
  }
  return links;
}

Shape lattice_shape(const char* name, int ranks, int rows, int least_rows) {
  if (rows == 0) {
    if (ranks == 1) return {1, 1};
    rows = squarest_rows(ranks);
    if (rows == 0)
      fail(Kind::usage,
           "topology {}: expected a number of ranks that is a product of two sides of at least 2, "
           "found {}; start {} ranks, or set synchronization.topology.kind to \"ring\" or "
           "\"exponential\", which take any number",
           name, ranks, nearest_sizes(ranks));
    return {rows, ranks / rows};
  }
  if (rows >= least_rows && ranks % rows == 0 && ranks / rows >= least_rows)
    return {rows, ranks / rows};
  const std::vector<int> choices = divisors(ranks, least_rows);
  fail(Kind::usage,
       "topology {}: expected rows that divide {} ranks, with sides of at least {}, found {}; {}",
       name, ranks, least_rows, rows,
       choices.empty() ? fmt::format("start {} ranks with synchronization.topology.rows 0",
                                     nearest_sizes(ranks))
                       : fmt::format("set synchronization.topology.rows to one of {}",
                                     fmt::join(choices, ", ")));
}

Links torus_links(Shape shape) {
  if (shape.rows * shape.columns == 1) return {};
  return lattice_links(shape, true);
}

Links mesh_links(Shape shape) { return lattice_links(shape, false); }

int exponential_degree(int ranks) {
  return static_cast<int>(std::bit_width(static_cast<unsigned>(ranks - 1)));
}

Links exponential_links(int ranks) {
  Links links;
  for (int round = 0; round < exponential_degree(ranks); ++round)
    for (const Link& link : one_peer_links(ranks, round)) links.push_back(link);
  return links;
}

Links one_peer_links(int ranks, int round) {
  Links links;
  for (Rank r = 0; r < ranks; ++r) links.push_back({r, (r + (1 << round)) % ranks});
  return links;
}

Links complete_links(int ranks) {
  Links links;
  for (Rank from = 0; from < ranks; ++from)
    for (Rank to = 0; to < ranks; ++to)
      if (from != to) links.push_back({from, to});
  return links;
}

Links star_links(int ranks) {
  Links links;
  for (Rank leaf = 1; leaf < ranks; ++leaf) {
    links.push_back({0, leaf});
    links.push_back({leaf, 0});
  }
  return links;
}

}  // namespace eqt::topology
