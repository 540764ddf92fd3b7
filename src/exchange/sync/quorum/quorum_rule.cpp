// SPDX-License-Identifier: Apache-2.0
#include "sync/quorum/quorum_rule.hpp"

#include <algorithm>

#include "core/error.hpp"

namespace eqt::sync {
namespace {

constexpr double kGraceShare = 0.25;  // of a round's seconds

}  // namespace

void QuorumCoordinator::open(double now) {
  std::ranges::fill(counts_, 0u);
  began_ = now;
  quorum_since_.reset();
  last_seconds_.reset();
}

void QuorumCoordinator::ready(Rank rank, std::uint64_t count, double now) {
  EQT_CHECK(count > 0, "rank {} is ready without a step", rank);
  counts_.at(static_cast<std::size_t>(rank)) = count;
  if (!quorum_since_ && ready_count() >= rule_.quorum) quorum_since_ = now;
}

std::optional<QuorumCoordinator::Closing> QuorumCoordinator::close(double now) {
  if (!quorum_since_) return {};
  bool waits = false, must_wait = false;
  for (std::size_t r = 0; r < counts_.size(); ++r) {
    waits |= counts_[r] == 0;
    must_wait |= counts_[r] == 0 && missed_[r] >= kMostMissedRounds;
  }
  if (must_wait || (waits && now < *quorum_since_ + grace())) return {};
  std::vector<bool> members;
  for (const std::uint64_t count : counts_) members.push_back(count > 0);
  return take(members, now);
}

std::optional<QuorumCoordinator::Closing> QuorumCoordinator::close_as(
    std::span<const double> counts, double now) {
  std::vector<bool> members;
  for (std::size_t r = 0; r < counts_.size(); ++r) {
    members.push_back(counts[r] > 0);
    if (!members[r]) continue;
    if (counts_[r] == 0) return {};
    if (static_cast<double>(counts_[r]) != counts[r])
      fail(Kind::data,
           "replay of a quorum: expected {} steps of rank {} in a round, found {}; the run differs "
           "from the one that is replayed",
           counts[r], r, counts_[r]);
  }
  return take(members, now);
}

std::size_t QuorumCoordinator::ready_count() const {
  return counts_.size() - static_cast<std::size_t>(std::ranges::count(counts_, 0u));
}

double QuorumCoordinator::grace() const {
  if (rule_.grace_seconds) return *rule_.grace_seconds;
  return kGraceShare * last_seconds_.value_or(*quorum_since_ - began_);
}

QuorumCoordinator::Closing QuorumCoordinator::take(const std::vector<bool>& members, double now) {
  Closing closing{.counts = counts_, .waited_seconds = now - quorum_since_.value_or(now)};
  for (std::size_t r = 0; r < members.size(); ++r) {
    missed_[r] = members[r] ? 0 : missed_[r] + 1;
    if (members[r])
      counts_[r] = 0;
    else
      closing.counts[r] = 0;
  }
  last_seconds_ = now - began_;
  began_ = now;
  quorum_since_.reset();
  if (ready_count() >= rule_.quorum) quorum_since_ = now;
  return closing;
}

}  // namespace eqt::sync
