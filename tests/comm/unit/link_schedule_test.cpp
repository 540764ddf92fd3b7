// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <numeric>
#include <set>
#include <utility>
#include <vector>

#include "comm/link_probe.hpp"
#include "support/catch.hpp"

using namespace eqt;
using comm::ProbeRound;

namespace {

bool is_disjoint(const ProbeRound& round) {
  std::set<Rank> seen;
  for (const auto& pair : round) {
    if (!seen.insert(pair.first).second || !seen.insert(pair.second).second) return false;
  }
  return true;
}

/// Pairs of all rounds; a pair that appears twice fails.
std::set<std::pair<Rank, Rank>> pairs_of(const std::vector<ProbeRound>& rounds) {
  std::set<std::pair<Rank, Rank>> pairs;
  for (const ProbeRound& round : rounds) {
    for (const auto& pair : round) {
      CHECK(pair.first < pair.second);
      CHECK(pairs.insert({pair.first, pair.second}).second);
    }
  }
  return pairs;
}

}  // namespace

TEST_CASE("every pair occurs once, in rounds of disjoint pairs", "[schedule]") {
  for (int n = 0; n <= 33; ++n) {
    INFO(n << " members");
    std::vector<Rank> members(static_cast<std::size_t>(n));
    std::iota(members.begin(), members.end(), 0);
    for (Rank& member : members) member = 7 * member + 3;  // not 0..n-1
    const auto rounds = comm::round_robin(members);
    // All pairs of n take at least n - 1 rounds for even n, n for odd n.
    CHECK(static_cast<int>(rounds.size()) == (n < 2 ? 0 : n % 2 == 0 ? n - 1 : n));
    CHECK(std::all_of(rounds.begin(), rounds.end(), is_disjoint));
    const auto pairs = pairs_of(rounds);
    CHECK(static_cast<int>(pairs.size()) == n * (n - 1) / 2);
    for (const auto& [low, high] : pairs) {
      CHECK(std::count(members.begin(), members.end(), low) == 1);
      CHECK(std::count(members.begin(), members.end(), high) == 1);
    }
  }
}

TEST_CASE("first, pairs of the hosts' first ranks; then first ranks and the others of their host",
          "[schedule]") {
  // Three hosts, interleaved: {0, 3}, {1, 4, 5}, {2}.
  const std::vector<Rank> first_on_host = {0, 1, 2, 0, 1, 1};
  const auto rounds = comm::probe_schedule(first_on_host);
  CHECK(std::all_of(rounds.begin(), rounds.end(), is_disjoint));
  const std::set<std::pair<Rank, Rank>> expected = {{0, 1}, {0, 2}, {1, 2},   // hosts
                                                    {0, 3}, {1, 4}, {1, 5}};  // within
  CHECK(pairs_of(rounds) == expected);
  CHECK(rounds.size() == 5);  // 3 between hosts; neighbours of 0 and 1 at the same time, and one
                              // more of 1
}

TEST_CASE("a host with many ranks probes a few of its pairs", "[schedule]") {
  CHECK(comm::probe_schedule(std::vector<Rank>(64, 0)).size() == comm::kProbedNeighbours);
  CHECK(comm::probe_schedule(std::vector<Rank>(1, 0)).empty());
}
