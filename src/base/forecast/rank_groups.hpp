// SPDX-License-Identifier: Apache-2.0
// The ranks of a cluster as groups that behave alike, and what they share. Private to the room.

#pragma once

#include <cstdint>
#include <vector>

#include "forecast/cluster.hpp"
#include "forecast/fluid_network.hpp"

namespace eqt::forecast {

/// Ranks that do the same at the same time; one of them is simulated.
struct RankGroup {
  std::size_t boards = 0;  // index in Cluster::boards
  int ranks = 1;           // in the group
  int per_board = 1;       // of the group on each of its boards
  int first_rank = 0;
  int slowest_of = 1;  // its steps take as long as the longest of so many
  ResourceId up = 0, down = 0;
  std::size_t board = 0;         // by rank: number of the board; else unused
  std::vector<Use> computing{};  // of cores
  std::vector<Use> communicating{};
};

/// Messages from each rank of a group to each of some ranks of another.
struct Target {
  std::size_t group = 0;
  double per_sender = 1;    // messages that a rank of the sending group sends
  double per_receiver = 1;  // messages that a rank of the receiving group gets
  bool same_board = false;  // no link is used
};

class RankGroups {
 public:
  /// @param by_rank each rank is a group
  RankGroups(const Cluster& cluster, bool by_rank, FluidNetwork& links, FluidNetwork& cores);

  const std::vector<RankGroup>& all() const { return groups_; }
  const std::vector<Link>& links() const { return cluster_.links; }
  /// Says to whom a group sends in this round, without those that get nothing.
  std::vector<Target> targets(std::size_t from, const Round& round, const Graph& graph) const;
  /// Returns what a message of `target` takes of links for each of its bytes.
  std::vector<Use> uses(std::size_t from, const Target& target) const;
  double latency(std::size_t from, std::size_t to) const;
  /// Mean of the random part.
  double jitter(std::size_t from, std::size_t to) const;
  const Link& link_of(std::size_t group) const { return cluster_.links[boards_of(group).link]; }
  const Boards& boards_of(std::size_t group) const {
    return cluster_.boards[groups_[group].boards];
  }
  /// @pre link_of(group).shared
  ResourceId channel_of(std::size_t group) const { return channels_[boards_of(group).link]; }

 private:
  void add_by_rank(std::size_t boards, FluidNetwork& links, FluidNetwork& cores);
  void add_together(std::size_t boards, FluidNetwork& links, FluidNetwork& cores);
  std::vector<std::size_t> way_up(std::size_t at) const;

  const Cluster& cluster_;
  const bool by_rank_;
  std::vector<RankGroup> groups_;
  std::vector<ResourceId> channels_;  // by link; those of cables are not used
  struct Trunk {
    ResourceId up = 0, down = 0;
  };
  std::vector<Trunk> trunks_;  // by switch
  ResourceId all_cores_ = 0;
  int ranks_ = 0;
};

}  // namespace eqt::forecast
