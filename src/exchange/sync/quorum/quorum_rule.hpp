// SPDX-License-Identifier: Apache-2.0
// When a round of a quorum closes, and who is in it: rank 0's rule. Pure; knows no messages.

#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "core/layout.hpp"

namespace eqt::sync {

/// A round that a rank was left out of so often in a row waits for it.
inline constexpr std::uint64_t kMostMissedRounds = 8;

struct QuorumRule {
  std::size_t ranks = 1, quorum = 1;
  /// The other ranks are waited for this long once a quorum is ready; unset: a quarter of the last
  /// round's time, of this one's in the first round of an epoch.
  std::optional<double> grace_seconds = {};
};

/// Decoupled DiLoCo has a coordinator of this kind, with a least number of learners, a time of
/// grace and weights by work. Deviates: rank 0 of the job is it, and no rank starves.
class QuorumCoordinator {
 public:
  struct Closing {
    std::vector<std::uint64_t> counts;  // by rank; 0: not a member
    double waited_seconds = 0;          // since the quorum was ready
  };

  explicit QuorumCoordinator(const QuorumRule& rule)
      : rule_(rule), counts_(rule.ranks), missed_(rule.ranks) {}

  /// An epoch begins: nobody is ready.
  /// @param now [seconds], of a clock that does not go back
  void open(double now);
  /// @param count steps since those that were in a round, at least 1
  void ready(Rank rank, std::uint64_t count, double now);
  /// Closes the round if a quorum is ready and either all others are, or the time of grace has
  /// passed and no other rank must be waited for.
  std::optional<Closing> close(double now);
  /// Closes it as soon as these ranks are ready, in a replay. @param counts 0: not a member
  /// @throws Error{data} if another number of steps is ready
  std::optional<Closing> close_as(std::span<const double> counts, double now);
  /// Rounds in a row without each rank, to be kept from one epoch to the next.
  std::span<std::uint64_t> missed() noexcept { return missed_; }

 private:
  std::size_t ready_count() const;
  double grace() const;
  Closing take(const std::vector<bool>& members, double now);

  const QuorumRule rule_;
  std::vector<std::uint64_t> counts_;  // 0: not ready
  std::vector<std::uint64_t> missed_;
  double began_ = 0;                         // this round
  std::optional<double> quorum_since_ = {};  // when the quorum was ready
  std::optional<double> last_seconds_ = {};  // of the last round of this epoch
};

}  // namespace eqt::sync
