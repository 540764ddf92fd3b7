// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>

#include "comm/link_speed.hpp"

namespace eqt::comm {

std::vector<ProbeRound> round_robin(std::span<const Rank> members) {
  constexpr Rank kNobody = -1;
  std::vector<Rank> seats(members.begin(), members.end());
  if (seats.size() < 2) return {};
  if (seats.size() % 2 != 0) seats.push_back(kNobody);
  std::vector<ProbeRound> rounds(seats.size() - 1);
  for (ProbeRound& round : rounds) {
    for (std::size_t i = 0; i < seats.size() / 2; ++i) {
      const auto [low, high] = std::minmax(seats[i], seats[seats.size() - 1 - i]);
      if (low != kNobody) round.push_back({low, high});
    }
    std::rotate(seats.begin() + 1, seats.end() - 1, seats.end());
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
