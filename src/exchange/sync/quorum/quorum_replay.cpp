// SPDX-License-Identifier: Apache-2.0
// Rounds of a quorum, written to decisions and read from them.

#include "sync/quorum/quorum_replay.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/error.hpp"
#include "metrics/run_files.hpp"

namespace eqt::sync {
namespace {

bool is_count(double value) { return value >= 0 && value < 1e15 && value == std::floor(value); }

}  // namespace

metrics::DecisionRecord to_decision(const QuorumRound& round, double waited_seconds) {
  metrics::DecisionRecord decision;
  decision.step = round.round;
  decision.kind = kQuorumDecisions;
  decision.values = round.counts;
  decision.values.insert(decision.values.end(), round.applied_after.begin(),
                         round.applied_after.end());
  const auto left_out = std::ranges::count(round.counts, 0.0);
  decision.why =
      fmt::format("{} of {} ranks were ready {:.3f} s after the quorum was",
                  std::ssize(round.counts) - left_out, round.counts.size(), waited_seconds);
  return decision;
}

QuorumReplay::QuorumReplay(const std::vector<metrics::DecisionRecord>& decisions,
                           std::size_t ranks) {
  for (const metrics::DecisionRecord& decision : decisions) {
    if (decision.values.size() != 2 * ranks || !std::ranges::all_of(decision.values, is_count))
      fail(Kind::data,
           "train.replay: expected {} counts of {} ranks for round {}, found {} values; "
           "replay with as many ranks as the run had",
           2 * ranks, ranks, decision.step, decision.values.size());
    const auto middle = decision.values.begin() + static_cast<std::ptrdiff_t>(ranks);
    QuorumRound round{.round = decision.step,
                      .counts = {decision.values.begin(), middle},
                      .applied_after = {middle, decision.values.end()}};
    const bool empty = std::ranges::count(round.counts, 0.0) == std::ssize(round.counts);
    if (decision.step != rounds_.size() + 1 || empty)
      fail(Kind::data,
           "train.replay: expected round {} with its members, found {} round {}; give the "
           "{} of a whole run",
           rounds_.size() + 1, empty ? "an empty" : "", decision.step,
           metrics::run_files::kDecisions);
    rounds_.push_back(std::move(round));
  }
}

std::uint64_t QuorumReplay::applied_after(Rank rank, StepId own_steps) const {
  const auto at = static_cast<std::size_t>(rank);
  const auto wanted = static_cast<double>(own_steps);
  // A rank applies rounds in their order, so its steps do not fall.
  const auto after = std::ranges::upper_bound(
      rounds_, wanted, {}, [&](const QuorumRound& round) { return round.applied_after[at]; });
  if (after == rounds_.begin() || std::prev(after)->applied_after[at] != wanted) return 0;
  return std::prev(after)->round;
}

}  // namespace eqt::sync
