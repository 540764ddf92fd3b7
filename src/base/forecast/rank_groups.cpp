// SPDX-License-Identifier: Apache-2.0
#include "forecast/rank_groups.hpp"

#include <algorithm>
#include <limits>
#include <tuple>
#include <utility>

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

StepWork rounds_apart(const StepWork& work) {
  StepWork result = work;
  for (BucketWork& bucket : result.buckets) {
    std::vector<Round> rounds;
    for (Round round : bucket.rounds)
      rounds.insert(rounds.end(), static_cast<std::size_t>(std::exchange(round.times, 1)), round);
    bucket.rounds = std::move(rounds);
  }
  return result;
}

RoundPeers::RoundPeers(const StepWork& work, const RankGroups& groups, bool by_rank)
    : graphs_(work.graphs.size()) {
  for (const BucketWork& bucket : work.buckets) {
    std::vector<std::size_t> kinds;
    for (const Round& round : bucket.rounds) kinds.push_back(kind_of(round, work, groups, by_rank));
    kinds_of_.push_back(std::move(kinds));
  }
}

std::size_t RoundPeers::kind_of(const Round& round, const StepWork& work, const RankGroups& groups,
                                bool by_rank) {
  const auto found = std::ranges::find_if(kinds_, [&](const Kind& kind) {
    return kind.to == round.to && kind.distance == round.distance;
  });
  if (found != kinds_.end()) return static_cast<std::size_t>(found - kinds_.begin());
  EQT_CHECK(round.to != Peers::graph || graphs_ > 0, "a round over a graph, and no graph");
  const std::size_t place = kinds_.size();
  if (round.to != Peers::graph) add_kind(round, {}, groups, by_rank);
  if (round.to == Peers::graph)
    for (const Graph& graph : work.graphs) add_kind(round, graph, groups, by_rank);
  return place;
}

void RoundPeers::add_kind(const Round& round, const Graph& graph, const RankGroups& groups,
                          bool by_rank) {
  const std::size_t n = groups.all().size();
  Kind kind = {.to = round.to,
               .distance = round.distance,
               .targets = {},
               .sources = std::vector<std::uint32_t>(n, 0),
               .all_wait = !by_rank && round.to != Peers::all};
  for (std::size_t g = 0; g < n; ++g) kind.targets.push_back(groups.targets(g, round, graph));
  for (const auto& targets : kind.targets)
    for (const Target& target : targets) ++kind.sources[target.group];
  if (kind.all_wait) kind.sources.assign(n, static_cast<std::uint32_t>(n));
  kinds_.push_back(std::move(kind));
}

namespace {

auto urgency(const Message& message) {
  return std::tuple(message.synchronization, message.bucket, message.round);
}

}  // namespace

MessageQueues::MessageQueues(const RankGroups& groups, FluidNetwork& links)
    : groups_(groups),
      links_(links),
      queues_(groups.all().size() * groups.all().size()),
      busy_pairs_(groups.all().size()),
      senders_(groups.links().size()) {}

void MessageQueues::send(const Message& message) {
  auto& queue = queues_[pair_of(message)];
  const auto place = std::ranges::find_if(
      queue, [&](const Waiting& other) { return urgency(message) < urgency(other.message); });
  const bool first = place == queue.begin();
  if (queue.empty()) count_senders(message.from, +1);
  if (first && !queue.empty()) links_.pause(*queue.front().flow);
  queue.insert(place, {message, {}});
  if (first) start_first(queue);
}

Message MessageQueues::take_sent(std::size_t flow_owner) {
  auto& queue = queues_[flow_owner];
  const Message message = queue.front().message;
  queue.erase(queue.begin());
  if (queue.empty()) {
    count_senders(message.from, -1);
  } else {
    start_first(queue);
  }
  return message;
}

void MessageQueues::start_first(std::vector<Waiting>& queue) {
  Waiting& first = queue.front();
  if (first.flow) {
    links_.resume(*first.flow);
    return;
  }
  const Message& message = first.message;
  first.flow = links_.start(message.bytes, groups_.uses(message.from, message.target),
                            std::numeric_limits<double>::infinity(), pair_of(message));
}

/// A radio channel loses time with each further station that sends.
void MessageQueues::count_senders(std::size_t from, int change) {
  const Link& link = groups_.link_of(from);
  if (!link.shared || link.contention == 0) return;
  const bool sent = busy_pairs_[from] > 0;
  busy_pairs_[from] += change;
  const bool sends = busy_pairs_[from] > 0;
  if (sent == sends) return;
  double& senders = senders_[groups_.boards_of(from).link];
  senders += (sends ? 1 : -1) * groups_.all()[from].ranks;
  links_.set_capacity(groups_.channel_of(from),
                      1 / (1 + link.contention * std::max(0.0, senders - 1)));
}

}  // namespace eqt::forecast
