// SPDX-License-Identifier: Apache-2.0
// The weights that every rank applies to what it receives from the others.

#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "core/layout.hpp"

namespace eqt::topology {

/// A row or column may sum to this far from 1: rounding of weights, nothing else.
inline constexpr double kSumTolerance = 1e-12;

/// W[to][from]: the part of its mass that `from` gives to `to`; its own part if both are the same.
struct Entry {
  Rank from = 0;
  Rank to = 0;
  double weight = 0;
};

/// The rank at the other end of an edge.
struct Neighbour {
  Rank rank = 0;
  double weight = 0;  // W of the edge: what the receiver multiplies by

  bool operator==(const Neighbour&) const = default;
};

/// W, ranks x ranks, without negative weights. W[i][j] is the weight that rank i gives to what it
/// receives from rank j: column j says where rank j's value goes, row i what rank i's value is made
/// of. Columns that sum to 1 preserve the sum over ranks (push-sum needs that), rows that sum to 1
/// leave equal values equal; plain gossip needs both.
class MixingMatrix {
 public:
  /// @param entries the weights, in any order, diagonal included; what is left out is 0
  /// @throws Error{usage} unless ranks > 0, each entry stands once, is in range and finite and not
  /// negative, and all columns or all rows sum to 1 within kSumTolerance
  MixingMatrix(int ranks, std::vector<Entry> entries);

  int ranks() const noexcept { return ranks_; }
  /// W[to][from]; 0 without an edge.
  double weight(Rank to, Rank from) const;
  /// W[rank][rank].
  double self_weight(Rank rank) const;

  /// The ranks that `rank` receives from, ascending, without itself, with weights above 0.
  std::span<const Neighbour> in_neighbours(Rank rank) const;
  /// The ranks that `rank` sends to, ascending, without itself, with weights above 0.
  std::span<const Neighbour> out_neighbours(Rank rank) const;
  /// Directed edges, self weights excluded.
  std::size_t edge_count() const noexcept { return out_.size(); }

  /// W = W^T: what goes one way comes back with the same weight.
  bool is_symmetric() const noexcept { return symmetric_; }
  bool is_column_stochastic() const noexcept { return columns_sum_; }
  bool is_row_stochastic() const noexcept { return rows_sum_; }
  bool is_doubly_stochastic() const noexcept { return columns_sum_ && rows_sum_; }
  /// Returns true if edges lead from every rank to every other, directly or through others.
  bool is_strongly_connected() const;
  /// Some power of W has no zero: strongly connected, and the lengths of cycles have no common
  /// divisor, as with any self weight above 0. Only then do ranks reach consensus.
  bool is_primitive() const;

  /// ranks x ranks, row-major: [to * ranks + from].
  std::vector<double> row_major() const;

 private:
  void build_lists(std::vector<Entry> entries);
  void check_sums();

  int ranks_;
  std::vector<double> self_;                     // by rank
  std::vector<Neighbour> in_, out_;              // by rank, then by neighbour
  std::vector<std::size_t> in_from_, out_from_;  // where each rank's begin; one more than ranks
  bool symmetric_ = false, columns_sum_ = false, rows_sum_ = false;
};

}  // namespace eqt::topology
