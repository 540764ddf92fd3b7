// SPDX-License-Identifier: Apache-2.0
// The edges of the graphs that have names. Source: decentralised SGD's usual graphs, as in X. Lian
// et al., NeurIPS 2017 (ring), M. Assran et al., ICML 2019 (exponential, one peer), B. Ying et al.,
// NeurIPS 2021 (both exponential graphs), and lattices with and without wrap.

#pragma once

#include <vector>

#include "core/layout.hpp"

namespace eqt::topology {

/// `from` sends to `to`, another rank. A link that occurs twice is a double edge.
struct Link {
  Rank from = 0;
  Rank to = 0;

  bool operator==(const Link&) const = default;
};
using Links = std::vector<Link>;

// All arithmetic of ranks is modulo their number; a single rank has no links.

/// r -> r + 1, undirected also r -> r - 1. Two ranks have one edge each way.
Links ring_links(int ranks, bool directed);

struct Shape {
  int rows = 1;
  int columns = 1;
};

/// The squarest shape, both sides at least 2, or the one that has `rows` rows if that is not 0. One
/// rank: 1 x 1.
/// @param least_rows a side that is asked for may be this short
/// @param name "torus", for the message
/// @throws Error{usage} if there is none: which numbers of ranks or rows work
Shape lattice_shape(const char* name, int ranks, int rows, int least_rows);

/// (i, j) -> (i +- 1, j), (i, j +- 1) with wrap; rank = i columns + j. A side of 2 has double
/// edges.
Links torus_links(Shape shape);
/// Returns the links of torus_links() without wrap.
Links mesh_links(Shape shape);

/// Number of powers of two below `ranks`: floor(log2(ranks - 1)) + 1, and 0 for one rank.
int exponential_degree(int ranks);
/// r -> r + 2^i, i = 0 ... exponential_degree - 1.
Links exponential_links(int ranks);
/// r -> r + 2^round. @pre round < exponential_degree(ranks)
Links one_peer_links(int ranks, int round);

Links complete_links(int ranks);
/// Rank 0 <-> all others.
Links star_links(int ranks);

}  // namespace eqt::topology
