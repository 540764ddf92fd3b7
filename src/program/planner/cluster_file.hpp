// SPDX-License-Identifier: Apache-2.0
// The file that describes a cluster: boards, links, switches, what they take and cost.

#pragma once

#include <optional>
#include <string>
#include <vector>

#include "forecast/cluster.hpp"
#include "planner/goodput.hpp"

namespace eqt::planner {

/// Says what a board takes and costs besides time. 0: not said.
struct BoardFacts {
  std::optional<double> flops;  // multiply-adds count twice; instead of step_seconds
  double memory_bytes = 0;
  double busy_watts = 0, idle_watts = 0;
  double price = 0;
  double failures_per_second = 0;  // of a board
};

struct ClusterFile {
  // step_seconds is 0 where flops are given; where neither is, and for links without a rate (0) or
  // a latency (-1), complete() has to set them.
  forecast::Cluster cluster;
  std::vector<BoardFacts> facts;  // by kind of boards
  double joules_per_byte = 0;     // of what a board sends
  std::string currency = "EUR";
  Failures failures;   // their times
  std::string source;  // of its numbers; "" = not said
};

/// The most ranks of a cluster.
inline constexpr int kMostRanks = 100'000;

/// Of all rates, 1448 of 1514 bytes carry data: TCP over Ethernet with an MTU of 1500.
inline constexpr double kGoodput = 1448.0 / 1514.0;

/// @throws Error{usage}: malformed, an unknown key (with the nearest), a number out of range, a
/// link or switch that is not described, switches in a loop, too many ranks
ClusterFile parse_cluster(const std::string& text, const std::string& origin);

/// JSON Schema (draft 2020-12) of the file, pretty-printed.
std::string cluster_schema();

/// The first `ranks` ranks, boards in the order of the file; if it has fewer, the last kind of
/// boards is multiplied.
ClusterFile first_ranks(const ClusterFile& file, int ranks);

}  // namespace eqt::planner
