// SPDX-License-Identifier: Apache-2.0
#include "comm/transfers.hpp"

#include <utility>

#include "comm/host_memory.hpp"
#include "comm/transfer_state.hpp"
#include "core/checksum.hpp"

namespace eqt::comm {

bool HostWait::is_over_at_once() const noexcept {
  return memory->behind(steps) == HostMemory::kNobody;
}

Transfers::Transfers(void* comm, Watchdog& watchdog, int rank, int size)
    : state_(std::make_unique<State>(*static_cast<MPI_Comm*>(comm), watchdog, rank, size)) {}

Transfers::~Transfers() { state_->abandon(); }

void Transfers::set_fragment_rule(Rank peer, FragmentRule rule, bool within_host) {
  EQT_CHECK(state_->open.empty() && rule.in_flight > 0, "a fragment rule of {} in flight",
            rule.in_flight);
  state_->peer(peer).rule = rule;
  state_->peer(peer).within_host = within_host;
  state_->expect_fragments(rule.fragment_bytes);
}

void Transfers::set_send_hook(SendHook* hook) noexcept { state_->hook = hook; }
void Transfers::set_link_delay(const std::optional<LinkDelay>& delay) {
  state_->delay = delay;
  if (delay && delay->rank && *delay->rank != state_->rank) state_->delay.reset();
}
bool Transfers::changes_messages() const noexcept {
  return state_->hook != nullptr || state_->delay.has_value();
}
void Transfers::set_watchdog(Watchdog& watchdog) { state_->watchdog = &watchdog; }
void Transfers::start(Exchange& exchange) { state_->start(exchange); }
void Transfers::start(const HostWait& wait) { state_->start(wait); }
bool Transfers::progress() { return state_->progress(); }
const ByteCount& Transfers::byte_count() const noexcept { return state_->count; }
std::span<const std::uint64_t> Transfers::sent_bytes_by_peer() const noexcept {
  return state_->sent_to;
}

std::optional<std::vector<std::byte>> Transfers::replacement_for_mpi(
    std::span<const std::byte> bytes) {
  if (state_->hook == nullptr) return std::nullopt;
  auto other = state_->hook->replacement(bytes, SendHook::kAllRanks);
  EQT_CHECK(!other || other->size() == bytes.size(), "{} bytes in place of {}", other->size(),
            bytes.size());
  return other;
}

void Transfers::abandon() noexcept { state_->abandon(); }
void Transfers::cancel() noexcept { state_->cancelled.store(true); }

std::coroutine_handle<> Transfers::take_ready() {
  State& s = *state_;
  if (s.next_ready == s.ready.size()) {
    s.ready.clear();
    s.next_ready = 0;
    return {};
  }
  return s.ready[s.next_ready++];
}

void Transfers::reset_backoff() noexcept { state_->backoff.reset(); }

void Transfers::progress_or_pause() {
  State& s = *state_;
  if (s.cancelled.load(std::memory_order_relaxed)) {
    fail(Kind::mpi, "{} was given up because of another error", s.oldest_operation("waiting"));
  }
  if (s.progress()) {
    s.backoff.moved();
  } else {
    s.backoff.pause(s.awaits_this_host());
  }
}

void Transfers::wait(const Exchange& exchange) {
  state_->backoff.reset();
  while (!exchange.done()) progress_or_pause();
}

void Transfers::count(std::uint64_t sent_bytes, std::uint64_t received_bytes,
                      std::uint64_t messages) {
  state_->count.sent_bytes += sent_bytes;
  state_->count.received_bytes += received_bytes;
  state_->count.messages += messages;
  state_->count.estimated_bytes += sent_bytes;
}

void Transfers::count_on_host(Rank peer, std::uint64_t sent_bytes, std::uint64_t received_bytes) {
  ByteCount& count = state_->count;
  if (sent_bytes > 0) {
    const std::uint64_t all = sent_bytes + kChecksumBytes;
    count.sent_bytes += all;
    count.sent_on_host_bytes += all;
    count.sent_checksum_bytes += kChecksumBytes;
    ++count.messages;
    state_->sent_to[static_cast<std::size_t>(peer)] += all;
  }
  if (received_bytes > 0) {
    count.received_bytes += received_bytes + kChecksumBytes;
    count.received_checksum_bytes += kChecksumBytes;
  }
}

void Transfers::count_note(std::uint64_t sent_bytes, std::uint64_t received_bytes) {
  state_->count.sent_bytes += sent_bytes;
  state_->count.received_bytes += received_bytes;
  state_->count.messages += sent_bytes > 0 ? 1 : 0;
}

}  // namespace eqt::comm
