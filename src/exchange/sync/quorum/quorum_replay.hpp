// SPDX-License-Identifier: Apache-2.0
// Rounds of a quorum as decisions of a run, which another run can repeat.

#pragma once

#include <cstdint>
#include <vector>

#include "core/layout.hpp"
#include "metrics/decisions.hpp"

namespace eqt::sync {

/// The kind of these decisions. Their step is the number of the round, from 1. Their values are the
/// steps of each rank that count (0: not a member), then, again for each rank, its own steps after
/// which it has applied the round.
inline constexpr const char* kQuorumDecisions = "quorum";

struct QuorumRound {
  std::uint64_t round = 0;  // from 1
  std::vector<double> counts = {}, applied_after = {};
};

metrics::DecisionRecord to_decision(const QuorumRound& round, double waited_seconds);

/// The rounds of a run.
class QuorumReplay {
 public:
  /// @throws Error{data} if they are not the rounds of so many ranks
  QuorumReplay(const std::vector<metrics::DecisionRecord>& decisions, std::size_t ranks);

  /// The last recorded round; later ones are decided anew.
  std::uint64_t last() const noexcept { return rounds_.size(); }
  bool has(std::uint64_t round) const noexcept { return round >= 1 && round <= last(); }
  const QuorumRound& at(std::uint64_t round) const { return rounds_.at(round - 1); }
  /// The last round that the rank applied after this number of own steps; 0: none.
  std::uint64_t applied_after(Rank rank, StepId own_steps) const;

 private:
  std::vector<QuorumRound> rounds_;
};

}  // namespace eqt::sync
