// SPDX-License-Identifier: Apache-2.0
// Messages between groups of ranks, on links that they share. Private to the room.

#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "forecast/fluid_network.hpp"
#include "forecast/rank_groups.hpp"

namespace eqt::forecast {

struct Message {
  std::size_t from = 0;
  Target target;
  double bytes = 0;
  std::size_t synchronization = 0, bucket = 0, round = 0;
};

/// From one group to another one message is on its way at a time, that of the first bucket; a more
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
