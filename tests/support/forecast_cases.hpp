// SPDX-License-Identifier: Apache-2.0
// Clusters and work for tests of the forecast.

#pragma once

#include "forecast/step_simulation.hpp"

namespace eqt::forecast {

inline Cluster equal_boards(int count, double step_seconds, double bytes_per_second,
                            double latency = 0) {
  Cluster cluster;
  cluster.links = {
      {.name = "lan", .bytes_per_second = bytes_per_second, .latency_seconds = latency}};
  cluster.boards = {{.name = "board", .count = count, .step_seconds = step_seconds, .speed = {}}};
  return cluster;
}

/// Equal buckets that are ready at equal distances of the last two thirds of a step, averaged in
/// rounds of one message to each of the other ranks.
inline StepWork work_of(std::size_t buckets, std::size_t rounds, double bytes, double seconds) {
  StepWork work;
  for (std::size_t b = 0; b < buckets; ++b) {
    BucketWork bucket;
    bucket.ready =
        1 - 2.0 / 3 * static_cast<double>(buckets - 1 - b) / static_cast<double>(buckets);
    bucket.rounds.assign(rounds, {.seconds_before = seconds, .message_bytes = bytes});
    bucket.seconds_after = seconds;
    work.buckets.push_back(bucket);
  }
  return work;
}

}  // namespace eqt::forecast
