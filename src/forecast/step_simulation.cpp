// SPDX-License-Identifier: Apache-2.0
#include "forecast/step_simulation.hpp"

#include <algorithm>
#include <cmath>
#include <deque>
#include <limits>
#include <map>
#include <queue>
#include <tuple>
#include <utility>

#include "core/error.hpp"
#include "core/random.hpp"
#include "forecast/message_queues.hpp"
#include "forecast/rank_groups.hpp"
#include "forecast/round_peers.hpp"

namespace eqt::forecast {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
/// A bucket's rounds and what is left of them on one rank.
struct BucketState {
  bool ready = false, started = false, done = false;
  std::size_t round = 0;
  std::size_t sends_open = 0;
  bool sent = false;  // the messages of `round` have been handed over
};

/// A group's threads.
struct GroupState {
  std::size_t step = 0;             // completed
  std::size_t part = 0;             // of the computing of this step: up to bucket `part` is ready
  double factor = 1;                // of the computing time
  double waits_since = -1;          // of the computing thread; < 0: it computes
  std::size_t synchronization = 0;  // the current or last one
  bool under_way = false;
  std::size_t sent_at = 0;  // step after which the synchronization started
  std::vector<BucketState> buckets;
  std::size_t next = 0, busy_slots = 0, done = 0;
  std::deque<std::size_t> work;  // buckets with something for the communication thread to do
  bool works = false;            // on the first of them
  // By synchronization: messages by round of each bucket. Others can be ahead.
  std::map<std::size_t, std::vector<std::uint32_t>> arrived;
  BoardUse use;
  double sent_bytes = 0;     // by a rank
  double link_bytes = 0;     // those that leave the board
  std::vector<double> ends;  // of steps
};

/// A message arrives.
struct Event {
  double time = 0;
  std::uint64_t number = 0;  // events of one time are in the order in which they were made
  std::size_t group = 0, bucket = 0, round = 0, synchronization = 0;
  bool operator>(const Event& other) const {
    return std::tie(time, number) > std::tie(other.time, other.number);
  }
};

class Simulation {
 public:
  Simulation(const Cluster& cluster, const StepWork& work, const SimulationOptions& options,
             bool by_rank)
      : work_(by_rank ? rounds_apart(work) : work),
        options_(options),
        by_rank_(by_rank),
        groups_(cluster, by_rank, links_, cores_),
        queues_(groups_, links_),
        peers_(work_, groups_, by_rank),
        states_(groups_.all().size()) {
    for (GroupState& state : states_) state.buckets.resize(work_.buckets.size());
    for (const BucketWork& bucket : work_.buckets) {
      first_round_.push_back(rounds_);
      rounds_ += bucket.rounds.size();
    }
  }

  StepForecast run(const Cluster& cluster) {
    for (std::size_t g = 0; g < states_.size(); ++g) begin_step(g);
    while (finished_ < states_.size()) turn();
    return forecast(cluster);
  }

 private:
  // A thread has one piece of work at a time, which its number names.
  static std::size_t computing(std::size_t g) { return 2 * g; }
  static std::size_t communicating(std::size_t g) { return 2 * g + 1; }

  void turn() {
    const double until_event = events_.empty() ? kNever : events_.top().time - now_;
    const double seconds =
        std::min({until_event, links_.seconds_to_next_end(), cores_.seconds_to_next_end()});
    EQT_CHECK(seconds < kNever, "a simulated step that nothing ends");
    now_ += seconds;
    // Copies: what follows may start flows, which the networks' own lists are for.
    const std::vector<std::size_t> sent = links_.advance(seconds);
    const std::vector<std::size_t> worked_on = cores_.advance(seconds);
    for (const std::size_t pair : sent) end_of_sending(queues_.take_sent(pair));
    for (const std::size_t thread : worked_on)
      thread % 2 == 0 ? computed(thread / 2) : worked(thread / 2);
    while (!events_.empty() && events_.top().time <= now_) {
      const Event event = events_.top();
      events_.pop();
      deliver(event);
    }
  }

  // The computing thread.

  void begin_step(std::size_t g) {
    GroupState& state = states_[g];
    if (state.step == options_.steps) {
      ++finished_;
      return;
    }
    state.part = 0;
    const StepTime time = time_of(g, state.step + 1);
    state.factor = time.factor;
    if (starts_in_step(state.step) && !work_.after_update) begin_synchronization(g);
    if (time.stall_seconds > 0) {
      state.use.computing += time.stall_seconds;
      state.part = kStalled;
      cores_.start(time.stall_seconds, {}, 1, computing(g));
    } else {
      compute(g);
    }
  }

  StepTime time_of(std::size_t g, StepId step) const {
    const RankGroup& group = groups_.all()[g];
    const BoardSpeed& speed = groups_.boards_of(g).speed;
    if (by_rank_) return step_time(speed, options_.seed, step, group.first_rank);
    if (group.slowest_of > 1)
      return slowest_step_time(speed, options_.seed, step, group.first_rank, group.slowest_of);
    if (g + 1 == states_.size() || groups_.all()[g + 1].boards != group.boards) return {};
    // The group after this is the slowest of these boards, and the others are not slower.
    return {.factor = std::min(typical_factor(speed), time_of(g + 1, step).factor)};
  }

  bool starts_in_step(std::size_t step) const {
    return !work_.buckets.empty() && (step + 1) % static_cast<std::size_t>(work_.every) == 0;
  }

  /// Computes up to the next moment at which something is ready, or to the end of the update.
  void compute(std::size_t g) {
    GroupState& state = states_[g];
    const Boards& boards = groups_.boards_of(g);
    const std::size_t parts = work_.buckets.size();
    double seconds = 0;
    if (state.part < parts) {
      const double from = state.part == 0 ? 0 : work_.buckets[state.part - 1].ready;
      seconds = (work_.buckets[state.part].ready - from) * boards.step_seconds * state.factor;
    } else if (state.part == parts) {
      const double from = parts == 0 ? 0 : work_.buckets.back().ready;
      seconds = (1 - from) * boards.step_seconds * state.factor;
    } else {
      seconds = boards.update_seconds;
    }
    state.use.computing += seconds;
    cores_.start(seconds, groups_.all()[g].computing, 1, computing(g));
  }

  void computed(std::size_t g) {
    GroupState& state = states_[g];
    if (state.part == kStalled) {
      state.part = 0;
      compute(g);
      return;
    }
    const std::size_t part = state.part++;
    const std::size_t parts = work_.buckets.size();
    const bool in_backward = state.under_way && !work_.after_update;
    if (part < parts) {
      if (in_backward && work_.overlap) ready(g, part);
      compute(g);
    } else if (part == parts) {
      if (in_backward && !work_.overlap)
        for (std::size_t b = 0; b < parts; ++b) ready(g, b);
      if (in_backward) {
        wait(g);
      } else {
        compute(g);
      }
    } else {
      end_of_update(g);
    }
  }

  void end_of_update(std::size_t g) {
    GroupState& state = states_[g];
    if (work_.after_update && starts_in_step(state.step) && !is_waiting_to_send(g)) {
      send_models(g);
    }
    const auto delay = static_cast<std::size_t>(work_.delay);
    if (state.under_way && work_.after_update && state.step == state.sent_at + delay) {
      wait(g);
    } else {
      end_step(g);
    }
  }

  /// A synchronization after the update: all buckets are ready at once.
  void send_models(std::size_t g) {
    begin_synchronization(g);
    states_[g].sent_at = states_[g].step;
    for (std::size_t b = 0; b < work_.buckets.size(); ++b) ready(g, b);
  }

  /// With delay = every, the last means are waited for before the next are sent.
  bool is_waiting_to_send(std::size_t g) const {
    const GroupState& state = states_[g];
    return state.under_way && state.step > state.sent_at;
  }

  void wait(std::size_t g) {
    states_[g].waits_since = now_;
    if (!states_[g].under_way || states_[g].done == work_.buckets.size()) end_wait(g);
  }

  void end_wait(std::size_t g) {
    GroupState& state = states_[g];
    state.use.waiting += now_ - state.waits_since;
    state.waits_since = -1;
    state.under_way = false;
    if (!work_.after_update) {
      compute(g);  // the update
      return;
    }
    if (starts_in_step(state.step) && state.step > state.sent_at) {
      send_models(g);
      if (work_.delay == 0) return wait(g);
    }
    end_step(g);
  }

  void end_step(std::size_t g) {
    states_[g].ends.push_back(now_);
    ++states_[g].step;
    begin_step(g);
  }

  // The communication thread.

  void begin_synchronization(std::size_t g) {
    GroupState& state = states_[g];
    ++state.synchronization;
    state.under_way = true;
    state.next = state.busy_slots = state.done = 0;
    for (BucketState& bucket : state.buckets) bucket = {};
    state.arrived.erase(state.arrived.begin(), state.arrived.lower_bound(state.synchronization));
    state.arrived[state.synchronization].resize(rounds_);
  }

  void ready(std::size_t g, std::size_t bucket) {
    states_[g].buckets[bucket].ready = true;
    start_buckets(g);
  }

  void start_buckets(std::size_t g) {
    GroupState& state = states_[g];
    while (state.next < state.buckets.size() && state.buckets[state.next].ready &&
           state.busy_slots < work_.slots) {
      state.buckets[state.next].started = true;
      ++state.busy_slots;
      state.work.push_back(state.next++);
    }
    work(g);
  }

  /// Seconds of the thread's next piece of work for a bucket.
  double seconds_of(std::size_t g, std::size_t bucket) const {
    const BucketWork& todo = work_.buckets[bucket];
    const std::size_t round = states_[g].buckets[bucket].round;
    const double seconds = round < todo.rounds.size()
                               ? todo.rounds[round].seconds_before * todo.rounds[round].times
                               : todo.seconds_after;
    return seconds / groups_.boards_of(g).codec_speed;
  }

  void work(std::size_t g) {
    GroupState& state = states_[g];
    if (state.works || state.work.empty()) return;
    state.works = true;
    const double seconds = seconds_of(g, state.work.front());
    state.use.communicating += seconds;
    cores_.start(seconds, groups_.all()[g].communicating, 1, communicating(g));
  }

  void worked(std::size_t g) {
    GroupState& state = states_[g];
    const std::size_t b = state.work.front();
    state.work.pop_front();
    state.works = false;
    BucketState& bucket = state.buckets[b];
    if (bucket.round == work_.buckets[b].rounds.size()) {
      bucket.done = true;
      --state.busy_slots;
      ++state.done;
      start_buckets(g);
      if (state.done == state.buckets.size() && state.waits_since >= 0) end_wait(g);
      return;
    }
    send(g, b);
    work(g);
  }

  void send(std::size_t g, std::size_t b) {
    GroupState& state = states_[g];
    BucketState& bucket = state.buckets[b];
    const Round& round = work_.buckets[b].rounds[bucket.round];
    bucket.sent = true;
    const auto& all = peers_.of(b, bucket.round).targets[g];
    bucket.sends_open = all.size();
    for (const Target& target : all) {
      const Message message = {.from = g,
                               .target = target,
                               .bytes = round.message_bytes * round.times,
                               .synchronization = state.synchronization,
                               .bucket = b,
                               .round = bucket.round};
      state.sent_bytes += message.bytes * target.per_sender;
      if (target.same_board || message.bytes <= 0) {
        deliver_after(message, 0);
        --bucket.sends_open;
      } else {
        state.link_bytes += message.bytes * target.per_sender;
        queues_.send(message);
      }
    }
    continue_if_complete(g, b);
  }

  void end_of_sending(const Message& message) {
    deliver_after(message, delay_of(message));
    --states_[message.from].buckets[message.bucket].sends_open;
    continue_if_complete(message.from, message.bucket);
  }

  double delay_of(const Message& message) {
    const double latency = groups_.latency(message.from, message.target.group);
    const double jitter = groups_.jitter(message.from, message.target.group);
    const int times = work_.buckets[message.bucket].rounds[message.round].times;
    if (jitter == 0) return latency * times;
    double sum = 0;
    for (int i = 0; i < times; ++i) {
      const RandomStream random(make_key(options_.seed, deliveries_++,
                                         static_cast<std::uint32_t>(message.from),
                                         RandomPurpose::link));
      sum += latency - jitter * std::log((random.bits(0) + 0.5) * 0x1p-32);
    }
    return sum;
  }

  void deliver_after(const Message& message, double delay) {
    const auto push = [&](std::size_t to) {
      events_.push({.time = now_ + delay,
                    .number = numbers_++,
                    .group = to,
                    .bucket = message.bucket,
                    .round = message.round,
                    .synchronization = message.synchronization});
    };
    if (!peers_.of(message.bucket, message.round).all_wait) return push(message.target.group);
    for (std::size_t to = 0; to < states_.size(); ++to) push(to);
  }

  void deliver(const Event& event) {
    GroupState& state = states_[event.group];
    auto& counts = state.arrived[event.synchronization];
    counts.resize(rounds_);
    ++counts[first_round_[event.bucket] + event.round];
    if (state.synchronization == event.synchronization && state.under_way)
      continue_if_complete(event.group, event.bucket);
  }

  /// The next round of a bucket, if this one has sent and received all.
  void continue_if_complete(std::size_t g, std::size_t b) {
    GroupState& state = states_[g];
    BucketState& bucket = state.buckets[b];
    if (!bucket.sent || bucket.sends_open > 0) return;
    const auto& counts = state.arrived.at(state.synchronization);
    if (counts[first_round_[b] + bucket.round] < peers_.of(b, bucket.round).sources[g]) return;
    ++bucket.round;
    bucket.sent = false;
    state.work.push_back(b);
    work(g);
  }

  StepForecast forecast(const Cluster& cluster) const {
    StepForecast result;
    result.by_rank = by_rank_;
    const auto every = static_cast<std::size_t>(work_.every);
    const std::size_t steps = options_.steps;
    const auto end_of = [&](std::size_t step) {
      double end = 0;
      for (const GroupState& state : states_) end = std::max(end, state.ends[step]);
      return end;
    };
    double before = 0;
    for (std::size_t last = every - 1; last < steps; last += every) {
      const double end = end_of(last);
      result.step_seconds.push_back((end - before) / static_cast<double>(every));
      before = end;
    }
    const auto counted = static_cast<double>(result.step_seconds.size() * every);
    result.mean_seconds = before / counted;
    result.boards.resize(cluster.boards.size());
    std::vector<double> ranks(cluster.boards.size());
    double all = 0;
    for (std::size_t g = 0; g < states_.size(); ++g) {
      const RankGroup& group = groups_.all()[g];
      BoardUse& use = result.boards[group.boards];
      const GroupState& state = states_[g];
      const double weight = group.ranks;
      const double rate = groups_.link_of(g).bytes_per_second;
      ranks[group.boards] += weight;
      all += weight;
      result.sent_bytes += weight * state.sent_bytes / static_cast<double>(steps);
      use.computing += weight * state.use.computing / static_cast<double>(steps);
      use.waiting += weight * state.use.waiting / static_cast<double>(steps);
      use.communicating += weight * state.use.communicating / static_cast<double>(steps);
      use.sending +=
          weight * group.per_board * state.link_bytes / rate / static_cast<double>(steps);
    }
    result.sent_bytes /= all;
    for (std::size_t b = 0; b < result.boards.size(); ++b) {
      BoardUse& use = result.boards[b];
      use.computing /= ranks[b];
      use.waiting /= ranks[b];
      use.communicating /= ranks[b];
      use.sending /= ranks[b];
    }
    return result;
  }

  static constexpr std::size_t kStalled = static_cast<std::size_t>(-1);

  const StepWork work_;
  const SimulationOptions options_;
  const bool by_rank_;
  FluidNetwork links_, cores_;
  RankGroups groups_;
  MessageQueues queues_;
  RoundPeers peers_;
  std::vector<GroupState> states_;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  double now_ = 0;
  std::uint64_t numbers_ = 0, deliveries_ = 0;
  std::size_t finished_ = 0;
  std::vector<std::size_t> first_round_;  // by bucket, among the rounds of all
  std::size_t rounds_ = 0;
};

bool varies(const Cluster& cluster) {
  return std::ranges::any_of(cluster.boards, [&](const Boards& boards) {
    return boards.speed.cv > 0 || boards.speed.stall_every > 0 ||
           cluster.links[boards.link].jitter_seconds > 0;
  });
}

/// If boards of a kind behave alike, one of them is all of them.
bool is_symmetric(const Cluster& cluster, const StepWork& work) {
  return !varies(cluster) && std::ranges::all_of(work.buckets, [](const BucketWork& bucket) {
    return std::ranges::all_of(bucket.rounds,
                               [](const Round& round) { return round.to == Peers::all; });
  });
}

/// Messages times the flows that share links with each.
double effort_by_rank(const Cluster& cluster, const StepWork& work, std::size_t steps) {
  const double n = cluster.ranks();
  double messages = 0, flows = n;
  for (const BucketWork& bucket : work.buckets) {
    for (const Round& round : bucket.rounds) {
      double peers = 1;
      if (round.to == Peers::all) peers = n - 1;
      if (round.to == Peers::graph)
        for (const auto& row : work.neighbours)
          peers = std::max(peers, static_cast<double>(row.size()));
      messages += n * peers * round.times;
      flows = std::max(flows, n * peers);
    }
  }
  return messages * flows * static_cast<double>(steps);
}

}  // namespace

double StepForecast::quantile(double part) const {
  EQT_CHECK(part >= 0 && part <= 1 && !step_seconds.empty(), "the quantile {}", part);
  std::vector<double> sorted = step_seconds;
  std::ranges::sort(sorted);
  const double place = part * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(place);
  const double rest = place - static_cast<double>(below);
  return below + 1 < sorted.size() ? sorted[below] + rest * (sorted[below + 1] - sorted[below])
                                   : sorted[below];
}

StepForecast simulate_steps(const Cluster& cluster, const StepWork& work,
                            const SimulationOptions& options) {
  EQT_CHECK(cluster.ranks() > 0 && options.steps >= static_cast<std::size_t>(work.every),
            "{} ranks, {} steps", cluster.ranks(), options.steps);
  EQT_CHECK(work.every > 0 && work.delay >= 0 && work.delay <= work.every && work.slots > 0,
            "every {}, delay {}, slots {}", work.every, work.delay, work.slots);
  const bool by_rank = !is_symmetric(cluster, work) &&
                       effort_by_rank(cluster, work, options.steps) <= options.most_effort;
  return Simulation(cluster, work, options, by_rank).run(cluster);
}

}  // namespace eqt::forecast
