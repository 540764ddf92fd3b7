// SPDX-License-Identifier: Apache-2.0
// The rounds of disjoint pairs run one after the other and share the time equally. Ranks that are
// not in a round sleep in the allgather at its end; the two that are in it poll.

#include "comm/link_probe.hpp"

#include <mpi.h>

#include <algorithm>
#include <array>
#include <exception>
#include <utility>

#include "comm/mpi_call.hpp"
#include "comm/pair_probe.hpp"
#include "comm/watchdog.hpp"

namespace eqt::comm {
namespace {

constexpr double kLongestPairSeconds = 0.8;  // more time does not make the figures better
constexpr std::size_t kFigures = 6;          // per link

/// A duplicate of MPI_COMM_WORLD, so that no other message is mixed with those of the probe.
class ProbeWorld {
 public:
  ProbeWorld() {
    check(MPI_Comm_dup(MPI_COMM_WORLD, &comm_), "MPI_Comm_dup");
    check(MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  }
  ~ProbeWorld() {
    // Freeing is collective: if an error unwinds on one rank, the others will not take part.
    if (std::uncaught_exceptions() == 0) check_quietly(MPI_Comm_free(&comm_), "MPI_Comm_free");
  }
  ProbeWorld(const ProbeWorld&) = delete;
  ProbeWorld& operator=(const ProbeWorld&) = delete;
  MPI_Comm get() const { return comm_; }

 private:
  MPI_Comm comm_ = MPI_COMM_NULL;
};

std::array<double, kFigures> figures_of(const Link& link) {
  return {link.forward.latency_seconds,         link.forward.bytes_per_second,
          link.forward.duplex_bytes_per_second, link.backward.latency_seconds,
          link.backward.bytes_per_second,       link.backward.duplex_bytes_per_second};
}

void set_figures(Link& link, std::span<const double, kFigures> figures) {
  link.forward = {figures[0], figures[1], figures[2]};
  link.backward = {figures[3], figures[4], figures[5]};
}

/// The first rank of each pair knows its link; all other ranks have zeros, so the sum is exact.
void share(Communicator& comm, std::vector<Link>& links) {
  std::vector<double> figures(kFigures * links.size());
  for (std::size_t i = 0; i < links.size(); ++i) {
    if (links[i].first != comm.rank()) continue;
    const auto mine = figures_of(links[i]);
    std::copy(mine.begin(), mine.end(),
              figures.begin() + static_cast<std::ptrdiff_t>(kFigures * i));
  }
  comm.allreduce_sum(std::span<double>(figures));
  for (std::size_t i = 0; i < links.size(); ++i) {
    set_figures(links[i],
                std::span<const double, kFigures>(figures.data() + kFigures * i, kFigures));
  }
}

}  // namespace

std::vector<Rank> first_ranks_on_hosts(Communicator& comm) {
  const Rank first = comm.ranks_on_this_host().front();
  std::vector<Rank> firsts;
  for (const std::uint64_t rank : comm.allgather(static_cast<std::uint64_t>(first))) {
    firsts.push_back(static_cast<Rank>(rank));
  }
  return firsts;
}

std::vector<Link> probe_links(Communicator& comm, const ProbeOptions& options) {
  const std::vector<Rank> hosts = first_ranks_on_hosts(comm);
  const std::vector<ProbeRound> rounds = probe_schedule(hosts);
  const auto round_count = static_cast<double>(std::max<std::size_t>(rounds.size(), 1));
  const double seconds = std::min(kLongestPairSeconds, options.budget_seconds / round_count);
  const ProbeWorld world;
  Watchdog watchdog(options.timeout_seconds, comm.rank(), comm.size());
  std::vector<Link> links;
  for (const ProbeRound& round : rounds) {
    const Watchdog::Guard guard(watchdog, "link probe");
    for (const RankPair& pair : round) {
      Link link;
      link.first = pair.first;
      link.second = pair.second;
      link.same_host = hosts[static_cast<std::size_t>(pair.first)] ==
                       hosts[static_cast<std::size_t>(pair.second)];
      if (pair.first == comm.rank() || pair.second == comm.rank()) {
        const bool first = pair.first == comm.rank();
        const Rank peer = first ? pair.second : pair.first;
        if (options.before_pair) options.before_pair(peer);
        const PairSpeed speed = PairProbe(world.get(), comm.rank(), peer).measure(seconds);
        if (options.after_pair) options.after_pair(peer);
        link.forward = first ? speed.sent : speed.received;
        link.backward = first ? speed.received : speed.sent;
      }
      links.push_back(link);
    }
    comm.allgather(std::uint64_t{0});  // the next round starts on all ranks when this one is over
  }
  share(comm, links);
  return links;
}

}  // namespace eqt::comm
