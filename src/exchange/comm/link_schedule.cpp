// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>

#include "comm/link_speed.hpp"

namespace eqt::comm {

std::vector<ProbeRound> round_robin(std::span<const Rank> members) {
  constexpr Rank kNobody = -1;
  std::vector<Rank> order(members.begin(), members.end());
  if (order.size() < 2) return {};
  if (order.size() % 2 != 0) order.push_back(kNobody);
  std::vector<ProbeRound> rounds(order.size() - 1);
  for (ProbeRound& round : rounds) {
    for (std::size_t i = 0; i < order.size() / 2; ++i) {
      const auto [low, high] = std::minmax(order[i], order[order.size() - 1 - i]);
      if (low != kNobody) round.push_back({low, high});
    }
    std::rotate(order.begin() + 1, order.end() - 1, order.end());
  }
  return rounds;
}

std::vector<ProbeRound> probe_schedule(std::span<const Rank> first_on_host) {
  std::map<Rank, std::vector<Rank>> hosts;  // first rank → the others there
  for (std::size_t r = 0; r < first_on_host.size(); ++r) {
    auto& others = hosts[first_on_host[r]];
    if (const auto rank = static_cast<Rank>(r); rank != first_on_host[r]) others.push_back(rank);
  }
  std::vector<Rank> representatives;
  for (const auto& [first, others] : hosts) representatives.push_back(first);

  std::vector<ProbeRound> rounds = round_robin(representatives);
  for (std::size_t k = 0; k < std::size_t{kProbedNeighbours}; ++k) {
    ProbeRound round;
    for (const auto& [first, others] : hosts) {
      if (k < others.size()) round.push_back({first, others[k]});
    }
    if (round.empty()) break;
    rounds.push_back(std::move(round));
  }
  return rounds;
}

}  // namespace eqt::comm
