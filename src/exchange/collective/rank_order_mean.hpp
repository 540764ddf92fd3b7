// SPDX-License-Identifier: Apache-2.0
// Mean of float32 values over ranks whose bits depend on neither the message nor the MPI library:
// by messages, or in memory that the ranks share.

#pragma once

#include <span>
#include <vector>

#include "comm/communicator.hpp"
#include "core/task.hpp"

namespace eqt::collective {

/// The values that a rank adds: one n-th, the same on all ranks.
std::span<float> owned_part(Rank owner, Rank ranks, std::span<float> values);

/// Each rank owns one n-th of the values, adds those of all ranks in rank order, divides and sends
/// the result to all. In MPI_Allreduce the order of additions may depend on a value's position in
/// the message. Here the mean of a value depends on that value alone, and every rank gets the
/// owner's bits. Two ranks send each other all values and both add: as many bytes and one round
/// less.
///
/// Rounds   2; 1 for two ranks
/// Sent     2 * 4d * (n-1)/n  bytes per rank
///
/// One object serves one mean at a time.
class RankOrderMean {
 public:
  /// The names of the two rounds in error messages: string literals.
  struct Operations {
    const char* to_owners;
    const char* to_everyone;
  };

  /// Replaces `values` by their mean over ranks. Collective; the same count on every rank.
  /// @param all values of all such means of a step, if these are a part of them
  Task operator()(comm::Communicator& comm, std::span<float> values, comm::Route route,
                  Operations operations = {"mean of float32 values: to their owners",
                                           "mean of float32 values: to everyone"},
                  std::size_t all = 0);

 private:
  void to_peer(comm::Communicator& comm, std::span<float> values);
  void to_owners(comm::Communicator& comm, std::span<float> values);
  void from_owners(comm::Communicator& comm, std::span<float> values);
  void add_in_rank_order(Rank me, Rank ranks, std::span<float> mine, std::size_t all);
  void check_lengths(const char* operation) const;

  std::vector<float> received_;  // the other ranks' values in my part, in rank order
  std::vector<const float*> rows_;
  std::vector<comm::Outgoing> outgoing_;
  std::vector<comm::Incoming> incoming_;
};

/// Returns true if these values are in the host's memory. All ranks have the same answer for the
/// same part of their arrays.
bool in_host_memory(comm::Communicator& comm, std::span<const float> values);

/// The mean of RankOrderMean, with the same bits, in the arrays of a host's ranks: when all have
/// their values there, each adds its part of all arrays in rank order and writes the mean to all.
///
/// Rounds   2, of counters
/// Read     as many bytes of other ranks' arrays as RankOrderMean sends; counted as its messages
///
/// One at a time for each communicator.
/// @pre in_host_memory()
Task mean_in_host_memory(comm::Communicator& comm, std::span<float> values);

}  // namespace eqt::collective
