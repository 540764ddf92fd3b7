// SPDX-License-Identifier: Apache-2.0
// Groups of equal ranks, to whom each sends in each round, and the messages between groups on links
// that they share.

#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
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

/// Rounds that happen `times` times are so many rounds.
StepWork rounds_apart(const StepWork& work);

class RoundPeers {
 public:
  struct Kind {
    Peers to = Peers::all;
    int distance = 1;
    std::vector<std::vector<Target>> targets;  // by sending group
    std::vector<std::uint32_t> sources;        // messages that each group waits for
    bool all_wait = false;                     // each group for one message of each group
  };

  /// @param by_rank each group is one rank
  RoundPeers(const StepWork& work, const RankGroups& groups, bool by_rank);

  /// @pre synchronization >= 1
  const Kind& of(std::size_t bucket, std::size_t round, std::size_t synchronization) const {
    const std::size_t first = kinds_of_[bucket][round];
    if (kinds_[first].to != Peers::graph) return kinds_[first];
    return kinds_[first + (synchronization - 1) % graphs_];
  }

 private:
  /// The place of the round's kind; with graphs, that of the first one's, behind which the others'
  /// are.
  std::size_t kind_of(const Round& round, const StepWork& work, const RankGroups& groups,
                      bool by_rank);
  void add_kind(const Round& round, const Graph& graph, const RankGroups& groups, bool by_rank);

  std::size_t graphs_;
  std::vector<Kind> kinds_;
  std::vector<std::vector<std::size_t>> kinds_of_;  // [bucket][round]
};

struct Message {
  std::size_t from = 0;
  Target target;
  double bytes = 0;
  std::size_t synchronization = 0, bucket = 0, round = 0;
};

/// One message at a time is on its way from one group to another, that of the first bucket; a more
/// urgent one interrupts it.
class MessageQueues {
 public:
  /// @param links the groups' own; keeps references
  MessageQueues(const RankGroups& groups, FluidNetwork& links);

  /// @pre message.bytes > 0, and the target is on another board
  void send(const Message& message);
  /// The message whose flow has ended. Starts the next one of the same pair.
  /// @param flow_owner as FluidNetwork::advance() returned it
  Message take_sent(std::size_t flow_owner);

 private:
  struct Waiting {
    Message message;
    std::optional<FlowId> flow;  // unset: not started yet
  };

  std::size_t pair_of(const Message& message) const {
    return message.from * groups_.all().size() + message.target.group;
  }
  void start_first(std::vector<Waiting>& queue);
  void count_senders(std::size_t from, int change);

  const RankGroups& groups_;
  FluidNetwork& links_;
  std::vector<std::vector<Waiting>> queues_;  // by pair; the first one is on its way
  std::vector<int> busy_pairs_;               // by sending group
  std::vector<double> senders_;               // ranks that send, by link
};

}  // namespace eqt::forecast
