// SPDX-License-Identifier: Apache-2.0
#include "forecast/round_peers.hpp"

#include <algorithm>
#include <utility>

#include "core/error.hpp"

namespace eqt::forecast {

StepWork rounds_apart(const StepWork& work) {
  StepWork result = work;
  for (BucketWork& bucket : result.buckets) {
    std::vector<Round> rounds;
    for (Round round : bucket.rounds)
      rounds.insert(rounds.end(), static_cast<std::size_t>(std::exchange(round.times, 1)), round);
    bucket.rounds = std::move(rounds);
  }
  return result;
}

RoundPeers::RoundPeers(const StepWork& work, const RankGroups& groups, bool by_rank)
    : graphs_(work.graphs.size()) {
  for (const BucketWork& bucket : work.buckets) {
    std::vector<std::size_t> kinds;
    for (const Round& round : bucket.rounds) kinds.push_back(kind_of(round, work, groups, by_rank));
    kinds_of_.push_back(std::move(kinds));
  }
}

std::size_t RoundPeers::kind_of(const Round& round, const StepWork& work, const RankGroups& groups,
                                bool by_rank) {
  const auto found = std::ranges::find_if(kinds_, [&](const Kind& kind) {
    return kind.to == round.to && kind.distance == round.distance;
  });
  if (found != kinds_.end()) return static_cast<std::size_t>(found - kinds_.begin());
  EQT_CHECK(round.to != Peers::graph || graphs_ > 0, "a round over a graph, and no graph");
  const std::size_t place = kinds_.size();
  if (round.to != Peers::graph) add_kind(round, {}, groups, by_rank);
  if (round.to == Peers::graph)
    for (const Graph& graph : work.graphs) add_kind(round, graph, groups, by_rank);
  return place;
}

void RoundPeers::add_kind(const Round& round, const Graph& graph, const RankGroups& groups,
                          bool by_rank) {
  const std::size_t n = groups.all().size();
  Kind kind = {.to = round.to,
               .distance = round.distance,
               .targets = {},
               .sources = std::vector<std::uint32_t>(n, 0),
               .all_wait = !by_rank && round.to != Peers::all};
  for (std::size_t g = 0; g < n; ++g) kind.targets.push_back(groups.targets(g, round, graph));
  for (const auto& targets : kind.targets)
    for (const Target& target : targets) ++kind.sources[target.group];
  if (kind.all_wait) kind.sources.assign(n, static_cast<std::uint32_t>(n));
  kinds_.push_back(std::move(kind));
}

}  // namespace eqt::forecast
