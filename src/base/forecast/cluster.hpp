// SPDX-License-Identifier: Apache-2.0
// The boards, links and switches of a cluster, and what its ranks do in a step.

#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "forecast/board_speed.hpp"

namespace eqt::forecast {

/// A network that boards are connected to. All bytes are those of messages: the capacity of 1448
/// bytes of data in 1514 bytes of an Ethernet frame is taken into account by whoever makes it.
struct Link {
  std::string name;
  // true: a radio channel, on which one station sends at a time, and each byte passes twice, to the
  // access point and from it. false: a cable to a switch, with this rate in each direction.
  bool shared = false;
  double bytes_per_second = 0;
  double contention = 0;  // radio: what each further sender takes of the channel's time
  double latency_seconds = 0;
  double jitter_seconds = 0;  // mean of an exponential delay that comes on top

  bool operator==(const Link&) const = default;
};

/// A switch whose ports to boards are as fast as these; what leaves it passes its uplink.
struct Switch {
  std::string name;
  double bytes_per_second = 0;  // of the uplink, in each direction
  std::size_t to = kTop;        // where it leads
  static constexpr std::size_t kTop = static_cast<std::size_t>(-1);
};

/// Equal boards.
struct Boards {
  std::string name;
  int count = 1;            // boards
  int ranks = 1;            // on each
  double step_seconds = 0;  // of forward and backward pass of a rank
  double update_seconds = 0;
  double codec_speed = 1;    // of encoding, decoding and adding, relative to what StepWork says
  double cores = 0;          // 0: the communication thread always finds one that is free
  double cores_of_rank = 1;  // that computing keeps busy; 0: computing is emulated by sleeping
  BoardSpeed speed;          // what changes the time of a step
  std::size_t link = 0;
  std::size_t at = Switch::kTop;  // the switch; kTop: all that have none are at the same one
};

struct Cluster {
  std::vector<Boards> boards;
  std::vector<Link> links;
  std::vector<Switch> switches;
  double cores_of_all = 0;  // all boards are emulated by one machine with so many; 0: they are not

  int ranks() const;
};

/// Whom a rank sends a message in a round.
enum class Peers {
  all,       // every other rank
  distance,  // the rank so much higher, modulo n
  graph,     // its out-neighbours
};

/// One round of a mean: work, messages, and the wait for those of others.
struct Round {
  double seconds_before = 0;  // of the communication thread, until the messages are ready
  double message_bytes = 0;   // to each peer
  Peers to = Peers::all;
  int distance = 1;
  int times = 1;  // so many such rounds, one after the other
};

/// Values that are sent together.
struct BucketWork {
  double ready = 1;  // at this part of forward and backward pass, in (0, 1], ascending
  std::vector<Round> rounds;
  double seconds_after = 0;  // of the communication thread, after the last message
};

/// The out-neighbours of each rank.
using Graph = std::vector<std::vector<int>>;

/// All ranks do this in their steps.
struct StepWork {
  std::vector<BucketWork> buckets;  // in the order of sending
  std::size_t slots = 8;            // buckets under way at the same time
  bool overlap = true;              // with computing; false: buckets wait for the backward pass
  int every = 1;                    // steps from one synchronization to the next: H
  // It is true for local SGD and gossip: buckets are ready after the update and are waited for
  // `delay` steps later. Otherwise they are waited for before the update.
  bool after_update = false;
  int delay = 0;              // at most `every`
  std::vector<Graph> graphs;  // for Peers::graph: used by the synchronizations in turn
};

}  // namespace eqt::forecast
