// SPDX-License-Identifier: Apache-2.0
// What the open transfers of a rank wait for besides MPI's requests, and what a deadline names.

#include <algorithm>
#include <chrono>

#include "comm/host_memory.hpp"
#include "comm/transfer_state.hpp"
#include "comm/watchdog.hpp"

namespace eqt::comm {

void Transfers::State::start(const HostWait& wait) {
  host_waits.push_back(&wait);
  arm();
}

bool Transfers::State::end_host_waits() {
  bool ended = false;
  for (auto wait = host_waits.begin(); wait != host_waits.end();) {
    if ((*wait)->memory->behind((*wait)->steps) != HostMemory::kNobody) {
      ++wait;
      continue;
    }
    ready.push_back((*wait)->waiter);
    wait = host_waits.erase(wait);
    ended = true;
  }
  if (ended) {
    arm();
  } else if (open.empty() && !host_waits.empty()) {
    // The one that was behind may have come, and wait for another itself.
    const HostWait& wait = *host_waits.front();
    watchdog->await(wait.memory->behind(wait.steps));
  }
  return ended;
}

void Transfers::State::hold(std::uint32_t at) {
  const Exchange& exchange = *streams[at].exchange;
  const Rank sender = exchange.incoming[streams[at].index].from;
  const std::uint32_t channel = exchange.route.channel;
  const std::chrono::duration<double> seconds(
      seconds_held(*delay, sender, rank, channel, arrived[{channel, sender}]++));
  const auto now = std::chrono::steady_clock::now();
  held.push_back({at, now + std::chrono::ceil<std::chrono::steady_clock::duration>(seconds)});
}

bool Transfers::State::release_held() {
  const auto now = std::chrono::steady_clock::now();
  // A channel never has two messages of one sender here, since start() forbids a second exchange.
  const auto due = std::stable_partition(held.begin(), held.end(),
                                         [&](const Held& message) { return message.until > now; });
  if (due == held.end()) return false;
  for (auto message = due; message != held.end(); ++message) end(message->stream);
  held.erase(due, held.end());
  arm();
  return true;
}

const char* Transfers::State::oldest_operation(const char* otherwise) const {
  if (!open.empty()) return open.front()->operation;
  return host_waits.empty() ? otherwise : host_waits.front()->operation;
}

void Transfers::State::arm() {
  const auto awaited = std::find_if(
      open.begin(), open.end(), [](const Exchange* exchange) { return !exchange->at_any_time; });
  if (awaited != open.end()) {
    watchdog->arm((*awaited)->operation, silent_peer(**awaited));
  } else if (!host_waits.empty()) {
    const HostWait& wait = *host_waits.front();
    watchdog->arm(wait.operation, wait.memory->behind(wait.steps));
  } else {
    watchdog->disarm();
  }
}

bool Transfers::State::awaits_this_host() const {
  return !host_waits.empty() ||
         std::any_of(fragments.begin(), fragments.end(), [this](const Fragment& fragment) {
           const Stream& stream = streams[fragment.stream];
           const Exchange& of = *stream.exchange;
           const Rank other =
               fragment.sending ? of.outgoing[stream.index].to : of.incoming[stream.index].from;
           return peers[static_cast<std::size_t>(other)].within_host;
         });
}

int Transfers::State::silent_peer(const Exchange& exchange) const {
  for (const bool sending : {false, true}) {
    for (const Fragment& fragment : fragments) {
      const Stream& stream = streams[fragment.stream];
      if (stream.exchange != &exchange || fragment.sending != sending) continue;
      return sending ? exchange.outgoing[stream.index].to : exchange.incoming[stream.index].from;
    }
  }
  return Watchdog::kNobody;
}

}  // namespace eqt::comm
