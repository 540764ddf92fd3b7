// SPDX-License-Identifier: Apache-2.0
#include "comm/transfers.hpp"

#include <mpi.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "comm/host_memory.hpp"
#include "comm/mpi_call.hpp"
#include "comm/watchdog.hpp"
#include "core/checksum.hpp"

namespace eqt::comm {

/// A message that is being sent or received in fragments.
struct Stream {
  Exchange* exchange = nullptr;
  std::size_t index = 0;        // in the exchange's outgoing or incoming
  std::size_t moved = 0;        // bytes given to MPI or received from it
  std::uint32_t in_flight = 0;  // fragments that MPI holds
  bool last_taken = false;      // no further fragment follows
  std::uint64_t checksum = 0;   // of the bytes so far
  std::uint64_t theirs = 0;     // as received
};

/// A fragment that MPI holds.
struct Fragment {
  std::uint32_t stream = 0;  // in the table of streams
  bool sending = false;
  bool is_checksum = false;
};

/// A message that is complete but must not count as received yet.
struct Held {
  std::uint32_t stream = 0;  // in the table of streams
  std::chrono::steady_clock::time_point until;
};

struct Transfers::State {
  MPI_Comm comm;
  Watchdog* watchdog;
  int rank, size;
  ByteCount count;
  std::vector<std::uint64_t> sent_to;  // point-to-point bytes, by receiver
  std::atomic<bool> cancelled{false};
  PollBackoff backoff;
  std::deque<Stream> streams;  // some unused; MPI has pointers into them
  /// Receives the checksum that ends a message of a stream. It is as long as a fragment, because
  /// one may come in its place, from a damaged message: Open MPI 4.1 does not cut a long message
  /// that it reads from another process's memory (CMA), but writes past the end of a shorter
  /// buffer. Otherwise only the first bytes are written, and the rest takes no memory.
  struct LastFragment {
    std::unique_ptr<std::byte[]> buffer;
    std::size_t bytes = 0;
  };
  std::deque<LastFragment> last_fragments;
  std::vector<std::uint32_t> unused;
  struct Peer {
    FragmentRule rule;
    bool within_host = false;
    int in_flight = 0;                  // fragments that MPI is sending to this peer
    std::vector<std::uint32_t> queued;  // streams with fragments left to send, most urgent first
  };
  std::vector<Peer> peers;
  std::vector<MPI_Request> requests;  // one per element of `fragments`
  std::vector<Fragment> fragments;
  std::vector<int> finished;
  std::vector<MPI_Status> statuses;
  std::vector<Exchange*> open;              // in the order of their start
  std::vector<const HostWait*> host_waits;  // in the order of their start
  std::vector<std::coroutine_handle<>> ready;
  std::size_t next_ready = 0;
  SendHook* hook = nullptr;
  std::optional<LinkDelay> delay;
  std::vector<Held> held;
  std::map<std::pair<std::uint32_t, Rank>, std::uint64_t> arrived;  // messages, by channel, sender
  std::deque<std::vector<std::byte>> replaced;  // by the hook; MPI may still read them

  State(MPI_Comm of, Watchdog& dog, int my_rank, int ranks);
  void add_stream();
  /// The first `bytes` of last_fragments[stream], which has at least as many afterwards.
  std::span<std::byte> last_fragment(std::uint32_t stream, std::size_t bytes);
  /// Makes room for them at the start, so that no late step has to allocate.
  void expect_fragments(std::size_t bytes);
  Peer& peer(Rank r) { return peers[static_cast<std::size_t>(r)]; }

  std::uint32_t take_stream(Exchange& exchange, std::size_t index);
  void start(Exchange& exchange);

  /// Adds the stream behind those of the same urgency.
  void queue(Peer& to, std::uint32_t stream);

  /// Includes sender and channel, so that a misdirected message does not match its checksum.
  static std::uint64_t first_seed(const Exchange& exchange, Rank sender);
  int tag(const Exchange& exchange) const;
  void send_fragments(Peer& to);

  /// Also updates the checksum, since `bytes` pass through the caches now anyway.
  void send_fragment(std::uint32_t at, std::span<const std::byte> bytes);

  /// Does not count as a fragment in flight: it is as short as a fragment's headers.
  void send_checksum(std::uint32_t at);
  void send(std::uint32_t at, std::span<const std::byte> bytes, bool is_checksum);
  void receive_fragment(std::uint32_t at);
  void receive_checksum(std::uint32_t at);
  void receive(std::uint32_t at, std::span<std::byte> buffer, bool is_checksum);
  void add_request(const Fragment& fragment);
  bool progress();
  const char* oldest_operation(const char* otherwise) const;

  void start(const HostWait& wait);
  /// Ends the waits that are over; true if there are any.
  bool end_host_waits();

  /// Says which of the `n` finished requests failed and why.
  [[noreturn]] void fail_finished(int n);
  std::size_t buffer_size(const Fragment& fragment) const;
  MessageOrigin origin(const Stream& stream) const;
  void sent(const Fragment& fragment);
  void received(const Fragment& fragment, const MPI_Status& status);

  /// Called when a message and its checksum have arrived; compares them.
  void close(std::uint32_t at, std::size_t checksum_bytes);
  void end(std::uint32_t at);

  /// Keeps a message that has arrived until its time of `delay`.
  void hold(std::uint32_t at);
  /// Ends those whose time has come; true if there are any.
  bool release_held();
  void finish(Exchange& exchange);
  void remove_finished();

  /// Restarts the deadline. Called whenever something has moved.
  void arm();
  bool awaits_this_host() const;
  int silent_peer(const Exchange& exchange) const;
  void abandon() noexcept;
};

Transfers::State::State(MPI_Comm of, Watchdog& dog, int my_rank, int ranks)
    : comm(of),
      watchdog(&dog),
      rank(my_rank),
      size(ranks),
      sent_to(static_cast<std::size_t>(ranks)),
      peers(static_cast<std::size_t>(ranks)) {
  constexpr std::size_t kExpected = 64;
  const std::size_t most = kExpected * peers.size();
  unused.reserve(most);
  requests.reserve(most);
  fragments.reserve(most);
  finished.reserve(most);
  statuses.reserve(most);
  open.reserve(kExpected);
  ready.reserve(kExpected);
  host_waits.reserve(kExpected);
  for (Peer& peer : peers) peer.queued.reserve(kExpected);
  // The number of open messages depends on timing. Space for this many is made at the start, so
  // that no late step has to allocate.
  constexpr std::size_t kStreamsOfPeer = 16;
  while (streams.size() < kStreamsOfPeer * peers.size()) add_stream();
}

void Transfers::State::add_stream() {
  unused.push_back(static_cast<std::uint32_t>(streams.size()));
  streams.emplace_back();
  last_fragments.emplace_back();
}

std::span<std::byte> Transfers::State::last_fragment(std::uint32_t stream, std::size_t bytes) {
  LastFragment& last = last_fragments[stream];
  if (last.bytes < bytes)
    last = {.buffer = std::make_unique_for_overwrite<std::byte[]>(bytes), .bytes = bytes};
  return {last.buffer.get(), bytes};
}

void Transfers::State::expect_fragments(std::size_t bytes) {
  // The streams that are taken next; more are not open at a time, except by hundreds of ranks.
  constexpr std::size_t kMost = 1024;
  const std::size_t n = std::min(kMost, unused.size());
  for (const std::uint32_t stream : std::span(unused).last(n)) last_fragment(stream, bytes);
}

std::uint32_t Transfers::State::take_stream(Exchange& exchange, std::size_t index) {
  if (unused.empty()) add_stream();
  const std::uint32_t at = unused.back();
  unused.pop_back();
  streams[at] = {.exchange = &exchange, .index = index};
  return at;
}

void Transfers::State::start(Exchange& exchange) {
  EQT_CHECK(exchange.route.channel < kChannels, "channel {} of {}", exchange.route.channel,
            kChannels);
  exchange.open = exchange.outgoing.size() + exchange.incoming.size();
  if (exchange.open == 0) {
    finish(exchange);
    return;
  }
  open.push_back(&exchange);
  arm();
  // Receives are posted first: then MPI writes a message into its buffer directly.
  for (std::size_t i = 0; i < exchange.incoming.size(); ++i) {
    exchange.incoming[i].bytes = 0;
    const std::uint32_t stream = take_stream(exchange, i);
    streams[stream].checksum = first_seed(exchange, exchange.incoming[i].from);
    receive_fragment(stream);
  }
  for (std::size_t i = 0; i < exchange.outgoing.size(); ++i) {
    const Rank to = exchange.outgoing[i].to;
    const std::uint32_t stream = take_stream(exchange, i);
    if (hook != nullptr && !exchange.outgoing[i].bytes.empty() && !hook->sends(to)) {
      end(stream);
      continue;
    }
    streams[stream].checksum = first_seed(exchange, rank);
    queue(peer(to), stream);
    send_fragments(peer(to));
  }
}

void Transfers::State::queue(Peer& to, std::uint32_t stream) {
  const auto priority = [this](std::uint32_t s) { return streams[s].exchange->route.priority; };
  const auto place = std::upper_bound(
      to.queued.begin(), to.queued.end(), priority(stream),
      [&](std::uint32_t value, std::uint32_t queued) { return value < priority(queued); });
  to.queued.insert(place, stream);
}

std::uint64_t Transfers::State::first_seed(const Exchange& exchange, Rank sender) {
  return std::uint64_t{exchange.route.channel} << 32 | static_cast<std::uint32_t>(sender);
}

int Transfers::State::tag(const Exchange& exchange) const {
  return kFirstChannelTag + static_cast<int>(exchange.route.channel);
}

void Transfers::State::send_fragments(Peer& to) {
  while (!to.queued.empty() && to.in_flight < to.rule.in_flight) {
    const std::uint32_t at = to.queued.front();
    Stream& stream = streams[at];
    const Outgoing& out = stream.exchange->outgoing[stream.index];
    const std::size_t left = out.bytes.size() - stream.moved;
    const std::size_t most = to.rule.fragment_bytes == 0 ? left : to.rule.fragment_bytes;
    const std::size_t bytes = std::min(left, most);
    send_fragment(at, out.bytes.subspan(stream.moved, bytes));
    stream.moved += bytes;
    ++to.in_flight;
    count.sent_bytes += bytes;
    sent_to[static_cast<std::size_t>(out.to)] += bytes;
    if (to.within_host) count.sent_on_host_bytes += bytes;
    ++count.messages;
    // After a fragment of full length another one follows, which may be empty.
    if (bytes < most || to.rule.fragment_bytes == 0) {
      stream.last_taken = true;
      to.queued.erase(to.queued.begin());
      send_checksum(at);
    }
  }
}

void Transfers::State::send_fragment(std::uint32_t at, std::span<const std::byte> bytes) {
  Stream& stream = streams[at];
  const Rank to = stream.exchange->outgoing[stream.index].to;
  stream.checksum = checksum(bytes, stream.checksum);
  if (hook != nullptr) {
    if (auto other = hook->replacement(bytes, to)) bytes = replaced.emplace_back(*std::move(other));
  }
  send(at, bytes, false);
}

void Transfers::State::send_checksum(std::uint32_t at) {
  const auto sum = std::as_bytes(std::span(&streams[at].checksum, 1));
  const Rank to = streams[at].exchange->outgoing[streams[at].index].to;
  send(at, sum, true);
  count.sent_bytes += sum.size();
  count.sent_checksum_bytes += sum.size();
  sent_to[static_cast<std::size_t>(to)] += sum.size();
  if (peer(to).within_host) count.sent_on_host_bytes += sum.size();
}

void Transfers::State::send(std::uint32_t at, std::span<const std::byte> bytes, bool is_checksum) {
  const Exchange& exchange = *streams[at].exchange;
  add_request({.stream = at, .sending = true, .is_checksum = is_checksum});
  check(MPI_Isend(bytes.data(), checked_int(bytes.size()), MPI_BYTE,
                  exchange.outgoing[streams[at].index].to, tag(exchange), comm, &requests.back()),
        exchange.operation);
  ++streams[at].in_flight;
}

void Transfers::State::receive_fragment(std::uint32_t at) {
  Stream& stream = streams[at];
  const Incoming& in = stream.exchange->incoming[stream.index];
  const std::size_t left = in.buffer.size() - stream.moved;
  const std::size_t rule = peer(in.from).rule.fragment_bytes;
  const std::size_t bytes = rule == 0 ? left : std::min(left, rule);
  receive(at, in.buffer.subspan(stream.moved, bytes), false);
}

void Transfers::State::receive_checksum(std::uint32_t at) {
  const Stream& stream = streams[at];
  const std::size_t rule = peer(stream.exchange->incoming[stream.index].from).rule.fragment_bytes;
  receive(at, last_fragment(at, std::max(rule, sizeof stream.theirs)), true);
}

void Transfers::State::receive(std::uint32_t at, std::span<std::byte> buffer, bool is_checksum) {
  const Exchange& exchange = *streams[at].exchange;
  add_request({.stream = at, .is_checksum = is_checksum});
  check(MPI_Irecv(buffer.data(), checked_int(buffer.size()), MPI_BYTE,
                  exchange.incoming[streams[at].index].from, tag(exchange), comm, &requests.back()),
        exchange.operation);
}

void Transfers::State::add_request(const Fragment& fragment) {
  requests.push_back(MPI_REQUEST_NULL);
  fragments.push_back(fragment);
}

bool Transfers::State::progress() {
  const bool waits_ended = !host_waits.empty() && end_host_waits();
  const bool released = (!held.empty() && release_held()) || waits_ended;
  if (requests.empty()) return released;
  finished.resize(requests.size());
  statuses.resize(requests.size());
  int n = 0;
  const char* const operation = oldest_operation("MPI_Testsome");
  const int code = MPI_Testsome(checked_int(requests.size()), requests.data(), &n, finished.data(),
                                statuses.data());
  if (code == MPI_ERR_IN_STATUS) fail_finished(n);
  check(code, operation);
  if (n <= 0) return released;
  for (int i = 0; i < n; ++i) {
    const Fragment fragment =
        fragments[static_cast<std::size_t>(finished[static_cast<std::size_t>(i)])];
    if (fragment.sending) {
      sent(fragment);
    } else {
      received(fragment, statuses[static_cast<std::size_t>(i)]);
    }
  }
  remove_finished();
  arm();
  return true;
}

void Transfers::State::fail_finished(int n) {
  for (int i = 0; i < n; ++i) {
    const Fragment& fragment =
        fragments[static_cast<std::size_t>(finished[static_cast<std::size_t>(i)])];
    const Stream& stream = streams[fragment.stream];
    const int code = statuses[static_cast<std::size_t>(i)].MPI_ERROR;
    if (code == MPI_SUCCESS || code == MPI_ERR_PENDING) continue;
    int kind = code;
    MPI_Error_class(code, &kind);
    if (kind != MPI_ERR_TRUNCATE) check(code, stream.exchange->operation);
    fail_message(origin(stream),
                 fmt::format("a message that fits its buffer of {} bytes, found more",
                             buffer_size(fragment)));
  }
  fail(Kind::mpi, "MPI_Testsome failed without a failed request");
}

std::size_t Transfers::State::buffer_size(const Fragment& fragment) const {
  const Stream& stream = streams[fragment.stream];
  return fragment.is_checksum ? stream.moved
                              : stream.exchange->incoming[stream.index].buffer.size();
}

MessageOrigin Transfers::State::origin(const Stream& stream) const {
  return {watchdog->step(), stream.exchange->operation,
          stream.exchange->incoming[stream.index].from};
}

void Transfers::State::sent(const Fragment& fragment) {
  Stream& stream = streams[fragment.stream];
  Peer& to = peer(stream.exchange->outgoing[stream.index].to);
  if (!fragment.is_checksum) --to.in_flight;
  --stream.in_flight;
  if (stream.last_taken && stream.in_flight == 0) end(fragment.stream);
  send_fragments(to);
}

void Transfers::State::received(const Fragment& fragment, const MPI_Status& status) {
  Stream& stream = streams[fragment.stream];
  Incoming& in = stream.exchange->incoming[stream.index];
  int bytes = 0;
  check(MPI_Get_count(&status, MPI_BYTE, &bytes), stream.exchange->operation);
  const auto length = static_cast<std::size_t>(bytes);
  if (fragment.is_checksum) {
    std::memcpy(&stream.theirs, last_fragments[fragment.stream].buffer.get(),
                std::min(length, sizeof stream.theirs));
    close(fragment.stream, length);
    return;
  }
  stream.checksum = checksum(in.buffer.subspan(stream.moved, length), stream.checksum);
  stream.moved += length;
  count.received_bytes += length;
  const std::size_t rule = peer(in.from).rule.fragment_bytes;
  if (rule == 0 || length < rule) {
    receive_checksum(fragment.stream);
  } else {
    receive_fragment(fragment.stream);
  }
}

void Transfers::State::close(std::uint32_t at, std::size_t checksum_bytes) {
  const Stream& stream = streams[at];
  if (checksum_bytes != sizeof stream.theirs) {
    fail_message(origin(stream), fmt::format("a checksum of {} bytes, found {} bytes",
                                             sizeof stream.theirs, checksum_bytes));
  }
  count.received_bytes += checksum_bytes;
  count.received_checksum_bytes += checksum_bytes;
  require_undamaged(origin(stream), stream.moved, stream.theirs, stream.checksum);
  stream.exchange->incoming[stream.index].bytes = stream.moved;
  if (delay) {
    hold(at);
  } else {
    end(at);
  }
}

void Transfers::State::end(std::uint32_t at) {
  Exchange& exchange = *streams[at].exchange;
  unused.push_back(at);
  if (--exchange.open > 0) return;
  open.erase(std::find(open.begin(), open.end(), &exchange));
  finish(exchange);
}

void Transfers::State::finish(Exchange& exchange) {
  if (exchange.waiter) ready.push_back(exchange.waiter);
}

void Transfers::State::remove_finished() {
  std::size_t kept = 0;
  for (std::size_t i = 0; i < requests.size(); ++i) {
    if (requests[i] == MPI_REQUEST_NULL) continue;
    requests[kept] = requests[i];
    fragments[kept++] = fragments[i];
  }
  requests.resize(kept);
  fragments.resize(kept);
}

void Transfers::State::abandon() noexcept {
  bool pending = false;
  for (std::size_t i = 0; i < requests.size(); ++i) {
    if (requests[i] == MPI_REQUEST_NULL) continue;
    if (!fragments[i].sending) MPI_Cancel(&requests[i]);
    MPI_Request_free(&requests[i]);
    pending = true;
  }
  requests.clear();
  fragments.clear();
  held.clear();
  // A receive that has begun cannot be cancelled: MPI may still read and write checksums here, and
  // what the hook has sent. The process is about to end.
  if (pending) {
    static_cast<void>(new std::deque<Stream>(std::move(streams)));
    static_cast<void>(new std::deque<LastFragment>(std::move(last_fragments)));
    static_cast<void>(new std::deque<std::vector<std::byte>>(std::move(replaced)));
    replaced.clear();
  }
  streams.clear();
  last_fragments.clear();
  unused.clear();
  open.clear();
  host_waits.clear();
  ready.clear();
  next_ready = 0;
  for (Peer& peer : peers) {
    peer.in_flight = 0;
    peer.queued.clear();
  }
  watchdog->disarm();
}

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
