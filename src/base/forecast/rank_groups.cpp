// SPDX-License-Identifier: Apache-2.0
#include "forecast/rank_groups.hpp"

#include <algorithm>

#include "core/error.hpp"

namespace eqt::forecast {
namespace {

/// Each rank sends to the one `distance` higher, modulo `ranks`, and boards hold consecutive ranks.
/// @return the part of a board's messages that leaves it
double leaving_part(int distance, int per_board, int ranks) {
  const int further = distance % ranks;
  const int leaving = std::min(further, per_board) - std::max(0, further - (ranks - per_board));
  return static_cast<double>(leaving) / per_board;
}

}  // namespace

int Cluster::ranks() const {
  int all = 0;
  for (const Boards& b : boards) all += b.count * b.ranks;
  return all;
}

RankGroups::RankGroups(const Cluster& cluster, bool by_rank, FluidNetwork& links,
                       FluidNetwork& cores)
    : cluster_(cluster), by_rank_(by_rank) {
  // A radio channel's capacity is its time; a byte takes 1 / rate of it on each of its two ways.
  for (const Link& link : cluster.links)
    channels_.push_back(links.add_resource(link.shared ? 1.0 : link.bytes_per_second));
  for (const Switch& s : cluster.switches)
    trunks_.push_back(
        {links.add_resource(s.bytes_per_second), links.add_resource(s.bytes_per_second)});
  if (cluster.cores_of_all > 0) all_cores_ = cores.add_resource(cluster.cores_of_all);
  for (std::size_t b = 0; b < cluster.boards.size(); ++b)
    by_rank ? add_by_rank(b, links, cores) : add_together(b, links, cores);
}

void RankGroups::add_by_rank(std::size_t boards, FluidNetwork& links, FluidNetwork& cores) {
  const Boards& kind = cluster_.boards[boards];
  for (int board = 0; board < kind.count; ++board) {
    const double rate = cluster_.links[kind.link].bytes_per_second;
    RankGroup group = {.boards = boards,
                       .up = links.add_resource(rate),
                       .down = links.add_resource(rate),
                       .board = groups_.empty() ? 0 : groups_.back().board + 1};
    if (cluster_.cores_of_all > 0) {
      group.communicating = {{all_cores_, 1}};
      if (kind.cores_of_rank > 0) group.computing = {{all_cores_, kind.cores_of_rank}};
    } else if (kind.cores > 0) {
      const ResourceId own = cores.add_resource(kind.cores);
      group.communicating = {{own, 1}};
      if (kind.cores_of_rank > 0) group.computing = {{own, kind.cores_of_rank}};
    }
    for (int rank = 0; rank < kind.ranks; ++rank) {
      group.first_rank = ranks_++;
      groups_.push_back(group);
    }
  }
}

void RankGroups::add_together(std::size_t boards, FluidNetwork& links, FluidNetwork& cores) {
  const Boards& kind = cluster_.boards[boards];
  const double rate = cluster_.links[kind.link].bytes_per_second;
  const bool varies = kind.speed.cv > 0 || kind.speed.stall_every > 0;
  const auto add = [&](int count, int slowest_of) {
    RankGroup group = {.boards = boards,
                       .ranks = count * kind.ranks,
                       .per_board = kind.ranks,
                       .first_rank = ranks_,
                       .slowest_of = slowest_of,
                       .up = links.add_resource(rate),
                       .down = links.add_resource(rate)};
    const double alike = cluster_.cores_of_all > 0 ? group.ranks : kind.ranks;
    if (cluster_.cores_of_all > 0 || kind.cores > 0) {
      const ResourceId shared =
          cluster_.cores_of_all > 0 ? all_cores_ : cores.add_resource(kind.cores);
      group.communicating = {{shared, alike}};
      if (kind.cores_of_rank > 0) group.computing = {{shared, alike * kind.cores_of_rank}};
    }
    ranks_ += group.ranks;
    groups_.push_back(group);
  };
  if (varies && kind.count > 1) {
    add(kind.count - 1, 1);
    add(1, kind.count * kind.ranks);
  } else {
    add(kind.count, varies ? kind.ranks : 1);
  }
}

std::vector<Target> RankGroups::targets(std::size_t from, const Round& round,
                                        const Graph& graph) const {
  std::vector<Target> result;
  const RankGroup& own = groups_[from];
  const auto to_rank = [&](int rank) {
    if (rank == own.first_rank) return;
    const auto other = static_cast<std::size_t>(rank);
    result.push_back({.group = other, .same_board = groups_[other].board == own.board});
  };
  if (by_rank_) {
    switch (round.to) {
      case Peers::all:
        for (int rank = 0; rank < ranks_; ++rank) to_rank(rank);
        break;
      case Peers::distance:
        to_rank((own.first_rank + round.distance) % ranks_);
        break;
      case Peers::graph:
        for (const int rank : graph.at(static_cast<std::size_t>(own.first_rank))) to_rank(rank);
        break;
    }
    return result;
  }
  if (round.to != Peers::all) {
    // Each rank sends as much as it receives, to ranks like itself; all wait for all.
    double messages = leaving_part(round.distance, own.per_board, ranks_);
    if (round.to == Peers::graph) {
      double edges = 0;
      for (const auto& row : graph) edges += static_cast<double>(row.size());
      messages = edges / static_cast<double>(ranks_);
    }
    result.push_back({.group = from,
                      .per_sender = messages,
                      .per_receiver = messages,
                      .same_board = messages == 0});
    return result;
  }
  for (std::size_t to = 0; to < groups_.size(); ++to) {
    const double on_board = to == from ? own.per_board : 0;
    const Target target = {.group = to,
                           .per_sender = groups_[to].ranks - on_board,
                           .per_receiver = own.ranks - on_board};
    if (target.per_sender > 0) result.push_back(target);
  }
  return result;
}

std::vector<std::size_t> RankGroups::way_up(std::size_t at) const {
  std::vector<std::size_t> way;
  while (at != Switch::kTop) {
    EQT_CHECK(way.size() <= cluster_.switches.size(), "a loop of switches");
    way.push_back(at);
    at = cluster_.switches[at].to;
  }
  return way;
}

std::vector<Use> RankGroups::uses(std::size_t from, const Target& target) const {
  const RankGroup& sender = groups_[from];
  const RankGroup& receiver = groups_[target.group];
  const Link& out = link_of(from);
  const Link& in = link_of(target.group);
  std::vector<Use> result;
  const double all = sender.ranks * target.per_sender;  // messages at a time
  const auto add_channel = [&](std::size_t group, const Link& link) {
    const Use use = {channel_of(group), all / link.bytes_per_second};
    for (Use& other : result) {
      if (other.resource != use.resource) continue;
      other.amount += use.amount;
      return;
    }
    result.push_back(use);
  };
  if (out.shared) {
    add_channel(from, out);
  } else {
    result.push_back({sender.up, sender.per_board * target.per_sender});
  }
  if (in.shared) {
    add_channel(target.group, in);
  } else {
    result.push_back({receiver.down, receiver.per_board * target.per_receiver});
  }
  // Trunks of both ways up to the switch where they meet.
  const auto up = way_up(boards_of(from).at), down = way_up(boards_of(target.group).at);
  const auto meets = [](const std::vector<std::size_t>& way, std::size_t at) {
    return std::ranges::find(way, at) != way.end();
  };
  for (const std::size_t at : up)
    if (!meets(down, at)) result.push_back({trunks_[at].up, all});
  for (const std::size_t at : down)
    if (!meets(up, at)) result.push_back({trunks_[at].down, all});
  return result;
}

double RankGroups::latency(std::size_t from, std::size_t to) const {
  return (link_of(from).latency_seconds + link_of(to).latency_seconds) / 2;
}

double RankGroups::jitter(std::size_t from, std::size_t to) const {
  return (link_of(from).jitter_seconds + link_of(to).jitter_seconds) / 2;
}

}  // namespace eqt::forecast
