// SPDX-License-Identifier: Apache-2.0
// Makes a mixing matrix from edges.

#pragma once

#include "topology/graphs.hpp"
#include "topology/mixing_matrix.hpp"
#include "topology/topology.hpp"

namespace eqt::topology {

/// W[i][j] = 1 / (outdegree(j) + 1) for each link j -> i and for i = j; double edges add up.
/// Columns sum to 1 on every graph, rows too where all in- and outdegrees are equal.
/// Source: M. Assran et al., ICML 2019.
MixingMatrix uniform_weights(int ranks, const Links& links);

/// W[i][j] = 1 / (1 + max(degree(i), degree(j))) for each edge, W[i][i] = the rest; double edges
/// count once. Symmetric and doubly stochastic on every undirected graph.
/// Source: L. Xiao, S. Boyd, S. Lall, IPSN 2005 (Metropolis-Hastings).
/// @pre links stand in both directions
MixingMatrix metropolis_weights(int ranks, const Links& links);

/// The weights of the edges, W[i][i] = the rest of column i.
/// @throws Error{usage} if a rank gives away more than 1
MixingMatrix given_weights(const Graph& graph);

}  // namespace eqt::topology
