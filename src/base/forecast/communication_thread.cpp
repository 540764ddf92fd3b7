// SPDX-License-Identifier: Apache-2.0
// What a rank's communication thread does: buckets, rounds, messages.

#include <algorithm>
#include <cmath>

#include "core/random.hpp"
#include "forecast/simulation.hpp"

namespace eqt::forecast {

void Simulation::begin_synchronization(std::size_t g) {
  GroupState& state = states_[g];
  ++state.synchronization;
  state.under_way = true;
  state.next = state.busy_slots = state.done = 0;
  for (BucketState& bucket : state.buckets) bucket = {};
  state.arrived.erase(state.arrived.begin(), state.arrived.lower_bound(state.synchronization));
  state.arrived[state.synchronization].resize(rounds_);
}

void Simulation::ready(std::size_t g, std::size_t bucket) {
  states_[g].buckets[bucket].ready = true;
  start_buckets(g);
}

void Simulation::start_buckets(std::size_t g) {
  GroupState& state = states_[g];
  while (state.next < state.buckets.size() && state.buckets[state.next].ready &&
         state.busy_slots < work_.slots) {
    state.buckets[state.next].started = true;
    ++state.busy_slots;
    state.work.push_back(state.next++);
  }
  work(g);
}

double Simulation::seconds_of(std::size_t g, std::size_t bucket) const {
  const BucketWork& todo = work_.buckets[bucket];
  const std::size_t round = states_[g].buckets[bucket].round;
  const double seconds = round < todo.rounds.size()
                             ? todo.rounds[round].seconds_before * todo.rounds[round].times
                             : todo.seconds_after;
  return seconds / groups_.boards_of(g).codec_speed;
}

void Simulation::work(std::size_t g) {
  GroupState& state = states_[g];
  if (state.works || state.work.empty()) return;
  state.works = true;
  const double seconds = seconds_of(g, state.work.front());
  state.use.communicating += seconds;
  cores_.start(seconds, groups_.all()[g].communicating, 1, communicating(g));
}

void Simulation::worked(std::size_t g) {
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

void Simulation::send(std::size_t g, std::size_t b) {
  GroupState& state = states_[g];
  BucketState& bucket = state.buckets[b];
  const Round& round = work_.buckets[b].rounds[bucket.round];
  bucket.sent = true;
  const auto& all = peers_.of(b, bucket.round, state.synchronization).targets[g];
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

void Simulation::end_of_sending(const Message& message) {
  deliver_after(message, delay_of(message));
  --states_[message.from].buckets[message.bucket].sends_open;
  continue_if_complete(message.from, message.bucket);
}

double Simulation::delay_of(const Message& message) {
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

void Simulation::deliver_after(const Message& message, double delay) {
  const auto push = [&](std::size_t to) {
    events_.push({.time = now_ + delay,
                  .number = numbers_++,
                  .group = to,
                  .bucket = message.bucket,
                  .round = message.round,
                  .synchronization = message.synchronization});
  };
  if (!peers_.of(message.bucket, message.round, message.synchronization).all_wait)
    return push(message.target.group);
  for (std::size_t to = 0; to < states_.size(); ++to) push(to);
}

void Simulation::deliver(const Event& event) {
  GroupState& state = states_[event.group];
  auto& counts = state.arrived[event.synchronization];
  counts.resize(rounds_);
  ++counts[first_round_[event.bucket] + event.round];
  if (state.synchronization == event.synchronization && state.under_way)
    continue_if_complete(event.group, event.bucket);
}

void Simulation::continue_if_complete(std::size_t g, std::size_t b) {
  GroupState& state = states_[g];
  BucketState& bucket = state.buckets[b];
  if (!bucket.sent || bucket.sends_open > 0) return;
  const auto& counts = state.arrived.at(state.synchronization);
  if (counts[first_round_[b] + bucket.round] <
      peers_.of(b, bucket.round, state.synchronization).sources[g])
    return;
  ++bucket.round;
  bucket.sent = false;
  state.work.push_back(b);
  work(g);
}

}  // namespace eqt::forecast
