// SPDX-License-Identifier: Apache-2.0
#include "forecast/step_simulation.hpp"

#include <algorithm>
#include <limits>

#include "core/error.hpp"
#include "forecast/simulation.hpp"

namespace eqt::forecast {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

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
        for (const Graph& graph : work.graphs)
          for (const auto& row : graph) peers = std::max(peers, static_cast<double>(row.size()));
      messages += n * peers * round.times;
      flows = std::max(flows, n * peers);
    }
  }
  return messages * flows * static_cast<double>(steps);
}

}  // namespace

Simulation::Simulation(const Cluster& cluster, const StepWork& work,
                       const SimulationOptions& options, bool by_rank)
    : cluster_(cluster),
      work_(by_rank ? rounds_apart(work) : work),
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

StepForecast Simulation::run() {
  for (std::size_t g = 0; g < states_.size(); ++g) begin_step(g);
  while (finished_ < states_.size()) turn();
  return forecast();
}

void Simulation::turn() {
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

StepForecast Simulation::forecast() const {
  StepForecast result;
  result.by_rank = by_rank_;
  const auto every = static_cast<std::size_t>(work_.every);
  const std::size_t steps = options_.steps;
  const auto end_of = [&](std::size_t step) {
    double end = 0;
    for (const GroupState& state : states_) end = std::max(end, state.ends[step]);
    return end;
  };
  // With a delay no mean is waited for in the first round, and the last one's is still under way at
  // the end: the first round is left out of times, and so is one of the means.
  const std::size_t first = work_.delay > 0 && steps >= 2 * every ? every : 0;
  double before = first == 0 ? 0 : end_of(first - 1);
  const double begin = before;
  for (std::size_t last = first + every - 1; last < steps; last += every) {
    const double end = end_of(last);
    result.step_seconds.push_back((end - before) / static_cast<double>(every));
    before = end;
  }
  const auto counted = static_cast<double>(result.step_seconds.size() * every);
  result.mean_seconds = (before - begin) / counted;
  const auto synchronized = static_cast<double>(steps - first);
  result.boards.resize(cluster_.boards.size());
  std::vector<double> ranks(cluster_.boards.size());
  double all = 0;
  for (std::size_t g = 0; g < states_.size(); ++g) {
    const RankGroup& group = groups_.all()[g];
    BoardUse& use = result.boards[group.boards];
    const GroupState& state = states_[g];
    const double weight = group.ranks;
    const double rate = groups_.link_of(g).bytes_per_second;
    ranks[group.boards] += weight;
    all += weight;
    result.sent_bytes += weight * state.sent_bytes / synchronized;
    use.computing += weight * state.use.computing / static_cast<double>(steps);
    use.waiting += weight * state.use.waiting / synchronized;
    use.communicating += weight * state.use.communicating / synchronized;
    use.sending += weight * group.per_board * state.link_bytes / rate / synchronized;
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

bool varies(const Cluster& cluster) {
  return std::ranges::any_of(cluster.boards, [&](const Boards& boards) {
    return boards.speed.cv > 0 || boards.speed.stall_every > 0 ||
           cluster.links[boards.link].jitter_seconds > 0;
  });
}

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
  return Simulation(cluster, work, options, by_rank).run();
}

}  // namespace eqt::forecast
