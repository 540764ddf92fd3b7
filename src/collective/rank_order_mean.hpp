// Mean of float32 values over ranks whose bits depend on neither the message nor the MPI library.

#pragma once

#include <span>
#include <vector>

#include "comm/communicator.hpp"

namespace eqt::collective {

/// Each rank owns one n-th of the values, adds what all ranks have there in rank order, divides and
/// sends the result to all. Unlike MPI_Allreduce's, whose order of additions may change with a
/// value's position in the message, the mean of a value depends on that value alone; and every rank
/// holds the owner's bits.
///
/// Rounds   2
/// Sent     2 * 4d * (n-1)/n  bytes per rank
class RankOrderMean {
 public:
  explicit RankOrderMean(comm::Communicator& comm);

  /// Replaces `values` by their mean over ranks. Collective; the same count on every rank.
  void operator()(std::span<float> values);

 private:
  std::span<float> part_of(Rank owner, std::span<float> values) const;
  void to_owners(std::span<float> values);
  void add_in_rank_order(std::span<float> mine);
  void from_owners(std::span<float> values);
  void exchange(const char* operation);

  comm::Communicator& comm_;
  std::vector<float> received_;  // my part of every rank, in rank order
  std::vector<comm::Outgoing> outgoing_;
  std::vector<comm::Incoming> incoming_;
};

}  // namespace eqt::collective
