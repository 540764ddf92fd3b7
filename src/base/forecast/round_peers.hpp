// SPDX-License-Identifier: Apache-2.0
// Says to whom groups of ranks send in each round, and for how many messages they wait. Private to
// the room.

#pragma once

#include <cstdint>
#include <vector>

#include "forecast/rank_groups.hpp"

namespace eqt::forecast {

/// Rounds that happen `times` times are so many rounds.
StepWork rounds_apart(const StepWork& work);

class RoundPeers {
 public:
  struct Kind {
    Peers to = Peers::all;
    int distance = 1;
    std::vector<std::vector<Target>> targets;  // by sending group
    std::vector<std::uint32_t> sources;        // messages that each group waits for
    bool all_wait = false;                     // each group for one message of each group
  };

  /// @param by_rank each group is one rank
  RoundPeers(const StepWork& work, const RankGroups& groups, bool by_rank);

  /// @pre synchronization >= 1
  const Kind& of(std::size_t bucket, std::size_t round, std::size_t synchronization) const {
    const std::size_t first = kinds_of_[bucket][round];
    if (kinds_[first].to != Peers::graph) return kinds_[first];
    return kinds_[first + (synchronization - 1) % graphs_];
  }

 private:
  /// The place of the round's kind; with graphs, that of the first one's, behind which the others'
  /// are.
  std::size_t kind_of(const Round& round, const StepWork& work, const RankGroups& groups,
                      bool by_rank);
  void add_kind(const Round& round, const Graph& graph, const RankGroups& groups, bool by_rank);

  std::size_t graphs_;
  std::vector<Kind> kinds_;
  std::vector<std::vector<std::size_t>> kinds_of_;  // [bucket][round]
};

}  // namespace eqt::forecast
