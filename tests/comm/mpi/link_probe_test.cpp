// SPDX-License-Identifier: Apache-2.0
#include "comm/link_probe.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <string>
#include <vector>

#include "comm/session.hpp"
#include "support/catch.hpp"
#include "support/mpi_world.hpp"

using namespace eqt;
using comm::Communicator;

TEST_CASE("all ranks hold the same positive figures of every link", "[probe]") {
  Communicator comm(test::session(), 30);
  int before = 0, after = 0;
  std::vector<Rank> peers;
  const auto links =
      comm::probe_links(comm, {.budget_seconds = 0.3,
                               .timeout_seconds = 30,
                               .before_pair = [&](Rank peer) { ++before, peers.push_back(peer); },
                               .after_pair = [&](Rank) { ++after; }});
  // One host: its first rank meets each of the others.
  CHECK(links.size() == static_cast<std::size_t>(comm.size() - 1));
  CHECK(before == (comm.rank() == 0 ? comm.size() - 1 : 1 - (comm.size() == 1)));
  CHECK(before == after);
  for (const Rank peer : peers) CHECK(comm.rank() * peer == 0);
  for (const comm::Link& link : links) {
    CHECK(link.first == 0);
    CHECK(link.same_host);
    for (const comm::LinkSpeed& speed : {link.forward, link.backward}) {
      for (const double figure :
           {speed.latency_seconds, speed.bytes_per_second, speed.duplex_bytes_per_second}) {
        CHECK(figure > 0);
        CHECK(std::isfinite(figure));
        comm.require_same(std::bit_cast<std::uint64_t>(figure), "figure of a link");
      }
      CHECK(speed.latency_seconds < 1);
    }
    CHECK(link.forward.latency_seconds == link.backward.latency_seconds);
  }
}

TEST_CASE("probing does not change the counted bytes of training", "[probe]") {
  Communicator comm(test::session(), 30);
  const auto before = comm.byte_count();
  comm::probe_links(comm, {.budget_seconds = 0.05});
  const auto counted = comm.byte_count().sent_bytes - before.sent_bytes;
  CHECK(counted < 4096);  // sharing the figures, not the streams
}

TEST_CASE("hosts are identified by their first ranks", "[probe]") {
  Communicator comm(test::session(), 30);
  const auto firsts = comm::first_ranks_on_hosts(comm);
  CHECK(firsts == std::vector<Rank>(static_cast<std::size_t>(comm.size()), 0));
}

TEST_CASE("texts of different lengths are gathered by rank", "[comm]") {
  Communicator comm(test::session(), 30);
  const auto text_of = [](Rank r) { return std::string(static_cast<std::size_t>(100 * r), 'a'); };
  const auto texts = comm.allgather(text_of(comm.rank()));
  CHECK(texts.size() == static_cast<std::size_t>(comm.size()));
  for (Rank r = 0; r < comm.size(); ++r) CHECK(texts[static_cast<std::size_t>(r)] == text_of(r));
}

TEST_CASE("MPI says which threads may call it", "[comm]") {
  const auto facts = comm::mpi_facts();
  CHECK(!facts.library.empty());
  const std::vector<std::string> levels = {"single", "funneled", "serialized", "multiple"};
  CHECK(std::count(levels.begin(), levels.end(), facts.thread_level) == 1);
}
