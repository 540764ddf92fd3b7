// SPDX-License-Identifier: Apache-2.0
// The seconds of steps on a cluster, by simulated events. A pure function of its arguments.
//
// A rank has two threads. One computes and, when a synchronization is due, waits. The other takes
// the buckets in their order as they are ready, as many at a time as there are slots: for each
// round it works, sends to the peers and waits until it has sent and received all messages of the
// round. It does one thing at a time, in the order in which things can be done. Of the messages
// from one rank to another only the one of the first bucket is on its way. Messages share links
// and threads share cores, see fluid_network.hpp.

#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "forecast/cluster.hpp"

namespace eqt::forecast {

struct SimulationOptions {
  std::size_t steps = 40;
  std::uint64_t seed = 1;
  // Messages times flows that share links, up to which every rank is simulated. Beyond, and where
  // equal boards behave alike, one stands for all of them; if the times of their steps vary, a
  // typical and the slowest one do. Rings and graphs are then simpler than they are: their ranks
  // wait for all others in each round.
  double most_effort = 2e8;
};

/// A forecast has these mean seconds of a step of one rank for each kind of boards, in the order of
/// Cluster::boards.
struct BoardUse {
  double computing = 0;  // forward, backward and update
  double waiting = 0;    // for means, the part of communication that computing does not hide
  double communicating =
      0;               // of the communication thread: encoding, decoding and handling messages
  double sending = 0;  // of the board's link at its full rate, in the direction that it uses more
};

struct StepForecast {
  // Mean over each `every` steps in a row, in order; with a delay without the first ones, in which
  // no mean is waited for.
  std::vector<double> step_seconds;
  double mean_seconds = 0;  // of a step
  double sent_bytes = 0;    // by a rank in a step, mean over ranks
  std::vector<BoardUse> boards;
  bool by_rank = true;  // false: equal boards were represented by one or two

  /// The step time below which this part of the steps is. @pre 0 <= part <= 1
  double quantile(double part) const;
};

/// True if steps or messages of the cluster do not all take the same time.
bool varies(const Cluster& cluster);

/// @pre ranks >= 1, rates > 0, links and switches exist, 0 <= delay <= every
StepForecast simulate_steps(const Cluster& cluster, const StepWork& work,
                            const SimulationOptions& options);

}  // namespace eqt::forecast
