// SPDX-License-Identifier: Apache-2.0
// Measures links: latency and bandwidth of each pair of hosts, and between ranks of one host.

#pragma once

#include <functional>
#include <vector>

#include "comm/communicator.hpp"
#include "comm/link_speed.hpp"

namespace eqt::comm {

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
