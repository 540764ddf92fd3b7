// SPDX-License-Identifier: Apache-2.0
#include "forecast/message_queues.hpp"

#include <algorithm>
#include <limits>
#include <tuple>

namespace eqt::forecast {
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
