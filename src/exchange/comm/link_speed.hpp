// SPDX-License-Identifier: Apache-2.0
// The measured speeds of a link between two ranks, and the schedule of measurements.

#pragma once

#include <span>
#include <vector>

#include "core/layout.hpp"

namespace eqt::comm {

/// One direction of a link.
struct LinkSpeed {
  double latency_seconds = 0;          // half a round trip of one byte, at its 10th percentile
  double bytes_per_second = 0;         // while nothing is sent back
  double duplex_bytes_per_second = 0;  // while the other direction sends as fast as it can
};

/// Two ranks and the speeds between them.
struct Link {
  Rank first = 0, second = 0;  // first < second
  bool same_host = false;
  LinkSpeed forward, backward;  // first → second, second → first
};

struct RankPair {
  Rank first = 0, second = 0;  // first < second
};
/// Pairs that measure at the same time; no rank is in two of them.
using ProbeRound = std::vector<RankPair>;

/// Every pair of `members` once, in n-1 rounds (n even) or n rounds (n odd), by the circle method
/// of tournaments: one member stays, the others move by one place per round.
std::vector<ProbeRound> round_robin(std::span<const Rank> members);

/// First the pairs of hosts, each represented by its first rank. Then, on all hosts at the same
/// time, the first rank with each of up to `kProbedNeighbours` others, one after the other because
/// they share the host's memory bandwidth.
/// @param first_on_host for each rank the first rank of its host
std::vector<ProbeRound> probe_schedule(std::span<const Rank> first_on_host);

inline constexpr int kProbedNeighbours = 7;

}  // namespace eqt::comm
