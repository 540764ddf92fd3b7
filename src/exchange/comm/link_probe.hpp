// SPDX-License-Identifier: Apache-2.0
// Measures links: latency and bandwidth of each pair of hosts, and between ranks of one host.

#pragma once

#include <functional>
#include <span>
#include <vector>

#include "comm/communicator.hpp"
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

struct ProbeOptions {
  double budget_seconds = 2;     // for all rounds together; a slow link may need a little more
  double timeout_seconds = 300;  // then the process ends with exit code 7; 0 = never
  /// Called on both ranks of a pair before and after its measurement, e.g. to read other counters.
  std::function<void(Rank peer)> before_pair = {}, after_pair = {};
};

/// Speeds between this rank and `peer`, which calls it at the same time.
struct PairSpeed {
  LinkSpeed sent, received;  // this rank → peer, peer → this rank
};

/// Returns for each rank the first rank of its host, with hosts as MPI sees them. Collective.
std::vector<Rank> first_ranks_on_hosts(Communicator& comm);

/// Measures all links of probe_schedule(), the pairs of one round at the same time, so that n hosts
/// need O(n) rounds. Collective; every rank gets the same bits. byte_count() includes neither its
/// bytes nor its messages.
/// @throws Error{mpi}
std::vector<Link> probe_links(Communicator& comm, const ProbeOptions& options);

}  // namespace eqt::comm
