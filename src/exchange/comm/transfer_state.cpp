// SPDX-License-Identifier: Apache-2.0
#include "comm/transfer_state.hpp"

#include <algorithm>
#include <cstring>

#include "comm/watchdog.hpp"
#include "core/checksum.hpp"

namespace eqt::comm {
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

}  // namespace eqt::comm
