// SPDX-License-Identifier: Apache-2.0
// The rounds of a collective add up to its cost formula.

#include <bit>
#include <cmath>

#include "collective/collective.hpp"
#include "collective/cost.hpp"
#include "support/catch.hpp"

namespace eqt::collective {
namespace {

constexpr double kValues = 1e6;

Volume volume(int ranks) {
  return {.ranks = ranks,
          .hosts = ranks,
          .values = kValues,
          .message_bytes = 5e5,
          .shared_scales = 100,
          .code_bits = 5,
          .sum_bits = 9,
          .host_sums_scatter = ranks > 2};
}

}  // namespace

TEST_CASE("bytes and seconds of all rounds are those of the cost formula", "[collective]") {
  const CodecCosts codec = {.encode = 3e-9, .decode = 2e-9};
  const CommunicationCosts machine = {.add = 1e-10};
  for (const Entry<CollectiveRow> row : CollectiveRow::all()) {
    for (const int ranks : {2, 3, 4, 7, 8, 16}) {
      const auto cost = collective_cost(*row, volume(ranks));
      if (!cost) continue;
      double after = 0;
      const auto rounds = rounds_of(*row, *cost, volume(ranks), codec, machine, after);
      double bytes = 0, seconds = after, number = 0;
      for (const forecast::Round& round : rounds) {
        const double peers = round.to == forecast::Peers::all ? ranks - 1 : 1;
        bytes += round.message_bytes * peers * round.times;
        seconds += round.seconds_before * round.times;
        number += round.times;
      }
      INFO(row->name << " among " << ranks);
      CHECK(number == cost->rounds);
      // Recursive doubling: as many as the busiest rank of an odd number sends.
      const bool is_mean =
          row->name != kRecursiveDoubling.name || std::has_single_bit(static_cast<unsigned>(ranks));
      CHECK(bytes == Approx(is_mean ? cost->sent_bytes : cost->rounds * 5e5));
      CHECK(seconds ==
            Approx(cost->encoded_values * codec.encode + cost->decoded_values * codec.decode +
                   cost->added_values * machine.add));
    }
  }
}

TEST_CASE("hosts of several ranks exchange the bytes of hierarchical between hosts",
          "[collective]") {
  const CodecCosts codec = {.encode = 3e-9, .decode = 2e-9};
  const CommunicationCosts machine = {.add = 1e-10};
  for (const int hosts : {2, 3, 8}) {
    for (const int lanes : {2, 4}) {
      for (const bool scatter : {false, true}) {
        Volume v = volume(hosts * lanes);
        v.hosts = hosts;
        v.host_sums_scatter = scatter;
        const auto cost = collective_cost(kHierarchical, v);
        REQUIRE(cost);
        double after = 0, bytes = 0;
        const auto rounds = rounds_of(kHierarchical, *cost, v, codec, machine, after);
        double seconds = after;
        for (const forecast::Round& round : rounds) {
          bytes += round.message_bytes * (hosts - 1) * lanes;
          seconds += round.seconds_before;
        }
        INFO(hosts << " hosts of " << lanes);
        CHECK(std::ssize(rounds) == cost->rounds);
        CHECK(bytes == Approx(*cost->between_hosts_bytes));
        // A lane is a part of the values. It sends its float32 to the other ranks of the host and
        // gets theirs, before and after the messages: four times, each at both ends.
        const double lane = kValues / lanes;
        const double copies =
            4 * ((lanes - 1) * kMemoryCosts.message + 4 * lane * (lanes - 1) * kMemoryCosts.byte);
        CHECK(seconds == Approx(lane * 3e-9 + lane * (scatter ? 2 : hosts) * 2e-9 +
                                lane * (lanes - 1) * 1e-10 + copies));
      }
    }
  }
}

TEST_CASE("ranks that share memory wait for each other twice and send nothing", "[collective]") {
  for (const int ranks : {2, 3, 8}) {
    Volume v = volume(ranks);
    v.hosts = 1;
    v.shares_memory = true;
    const auto cost = collective_cost(kDense, v);
    REQUIRE(cost);
    // Counted as the messages that it replaces.
    CHECK(cost->sent_bytes == Approx(8 * kValues * (ranks - 1) / ranks));
    double after = 0;
    const auto rounds = rounds_of(kDense, *cost, v, {}, kTcpCosts, after);
    CHECK(std::ssize(rounds) == cost->rounds);
    double seconds = after;
    for (const forecast::Round& round : rounds) {
      CHECK(round.message_bytes == 0);
      seconds += round.seconds_before;
    }
    INFO(ranks << " ranks");
    // An n-th of the values of n arrays.
    CHECK(seconds == Approx(kValues * kTcpCosts.add));
  }
}

TEST_CASE("one rank has no rounds", "[collective]") {
  double after = 0;
  CHECK(rounds_of(kAllgather, {.rounds = 1}, {.ranks = 1}, {}, {}, after).empty());
}

}  // namespace eqt::collective
