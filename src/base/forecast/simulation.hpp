// SPDX-License-Identifier: Apache-2.0
// Ranks with two threads each, step by step. Private to the room.

#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <queue>
#include <tuple>
#include <vector>

#include "forecast/fluid_network.hpp"
#include "forecast/rank_groups.hpp"
#include "forecast/step_simulation.hpp"

namespace eqt::forecast {

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
  // So many messages have arrived, by synchronization, then by round of each bucket. Others can be
  // ahead.
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
  /// @param by_rank each rank is simulated
  Simulation(const Cluster& cluster, const StepWork& work, const SimulationOptions& options,
             bool by_rank);

  StepForecast run();

 private:
  // A thread has one piece of work at a time, which its number names.
  static std::size_t computing(std::size_t g) { return 2 * g; }
  static std::size_t communicating(std::size_t g) { return 2 * g + 1; }

  void turn();

  // The computing thread, in computing_thread.cpp.
  void begin_step(std::size_t g);
  StepTime time_of(std::size_t g, StepId step) const;
  bool starts_in_step(std::size_t step) const;
  /// Computes up to the next moment at which something is ready, or to the end of the update.
  void compute(std::size_t g);
  void computed(std::size_t g);
  void end_of_update(std::size_t g);
  /// A synchronization after the update: all buckets are ready at once.
  void send_models(std::size_t g);
  /// With delay = every, the last means are waited for before the next are sent.
  bool is_waiting_to_send(std::size_t g) const;
  void wait(std::size_t g);
  void end_wait(std::size_t g);
  void end_step(std::size_t g);

  // The communication thread, in communication_thread.cpp.
  void begin_synchronization(std::size_t g);
  void ready(std::size_t g, std::size_t bucket);
  void start_buckets(std::size_t g);
  /// Seconds of the thread's next piece of work for a bucket.
  double seconds_of(std::size_t g, std::size_t bucket) const;
  void work(std::size_t g);
  void worked(std::size_t g);
  void send(std::size_t g, std::size_t b);
  void end_of_sending(const Message& message);
  double delay_of(const Message& message);
  void deliver_after(const Message& message, double delay);
  void deliver(const Event& event);
  /// The next round of a bucket, if this one has sent and received all.
  void continue_if_complete(std::size_t g, std::size_t b);

  StepForecast forecast() const;

  static constexpr std::size_t kStalled = static_cast<std::size_t>(-1);

  const Cluster& cluster_;
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

}  // namespace eqt::forecast
