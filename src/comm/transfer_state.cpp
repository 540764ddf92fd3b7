// SPDX-License-Identifier: Apache-2.0
#include "comm/transfer_state.hpp"

#include <algorithm>

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
  chunks.reserve(most);
  finished.reserve(most);
  statuses.reserve(most);
  open.reserve(kExpected);
  ready.reserve(kExpected);
  for (Peer& peer : peers) peer.queued.reserve(kExpected);
  // How many are under way at once depends on timing: none shall be the first of its kind in a
  // late step.
  constexpr std::size_t kStreamsOfPeer = 16;
  while (streams.size() < kStreamsOfPeer * peers.size()) add_stream();
}

void Transfers::State::add_stream() {
  unused.push_back(static_cast<std::uint32_t>(streams.size()));
  streams.emplace_back();
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
  // Receives first: a message that finds its room waiting is not copied through MPI's own
  // buffers.
  for (std::size_t i = 0; i < exchange.incoming.size(); ++i) {
    exchange.incoming[i].bytes = 0;
    const std::uint32_t stream = take_stream(exchange, i);
    streams[stream].checksum = first_seed(exchange, exchange.incoming[i].from);
    receive_chunk(stream);
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
    send_chunks(peer(to));
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

void Transfers::State::send_chunks(Peer& to) {
  while (!to.queued.empty() && to.in_flight < to.rule.in_flight) {
    const std::uint32_t at = to.queued.front();
    Stream& stream = streams[at];
    const Outgoing& out = stream.exchange->outgoing[stream.index];
    const std::size_t left = out.bytes.size() - stream.moved;
    const std::size_t most = to.rule.chunk_bytes == 0 ? left : to.rule.chunk_bytes;
    const std::size_t bytes = std::min(left, most);
    send_piece(at, out.bytes.subspan(stream.moved, bytes));
    stream.moved += bytes;
    ++to.in_flight;
    count.sent_bytes += bytes;
    sent_to[static_cast<std::size_t>(out.to)] += bytes;
    if (to.within_host) count.sent_on_host_bytes += bytes;
    ++count.messages;
    // A chunk of full length promises another, if only an empty one.
    if (bytes < most || to.rule.chunk_bytes == 0) {
      stream.last_taken = true;
      to.queued.erase(to.queued.begin());
      send_checksum(at);
    }
  }
}

void Transfers::State::send_piece(std::uint32_t at, std::span<const std::byte> bytes) {
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
  ++streams[at].in_air;
}

void Transfers::State::receive_chunk(std::uint32_t at) {
  Stream& stream = streams[at];
  const Incoming& in = stream.exchange->incoming[stream.index];
  const std::size_t left = in.room.size() - stream.moved;
  const std::size_t rule = peer(in.from).rule.chunk_bytes;
  const std::size_t bytes = rule == 0 ? left : std::min(left, rule);
  receive(at, in.room.subspan(stream.moved, bytes), false);
}

void Transfers::State::receive(std::uint32_t at, std::span<std::byte> room, bool is_checksum) {
  const Exchange& exchange = *streams[at].exchange;
  add_request({.stream = at, .is_checksum = is_checksum});
  check(MPI_Irecv(room.data(), checked_int(room.size()), MPI_BYTE,
                  exchange.incoming[streams[at].index].from, tag(exchange), comm, &requests.back()),
        exchange.operation);
}

void Transfers::State::add_request(const Chunk& chunk) {
  requests.push_back(MPI_REQUEST_NULL);
  chunks.push_back(chunk);
}

bool Transfers::State::progress() {
  if (requests.empty()) return false;
  finished.resize(requests.size());
  statuses.resize(requests.size());
  int n = 0;
  const char* const operation = open.empty() ? "MPI_Testsome" : open.front()->operation;
  const int code = MPI_Testsome(checked_int(requests.size()), requests.data(), &n, finished.data(),
                                statuses.data());
  if (code == MPI_ERR_IN_STATUS) fail_finished(n);
  check(code, operation);
  if (n <= 0) return false;
  for (int i = 0; i < n; ++i) {
    const Chunk chunk = chunks[static_cast<std::size_t>(finished[static_cast<std::size_t>(i)])];
    if (chunk.sending) {
      sent(chunk);
    } else {
      received(chunk, statuses[static_cast<std::size_t>(i)]);
    }
  }
  remove_finished();
  arm();
  return true;
}

void Transfers::State::fail_finished(int n) {
  for (int i = 0; i < n; ++i) {
    const Chunk& chunk = chunks[static_cast<std::size_t>(finished[static_cast<std::size_t>(i)])];
    const Stream& stream = streams[chunk.stream];
    const int code = statuses[static_cast<std::size_t>(i)].MPI_ERROR;
    if (code == MPI_SUCCESS || code == MPI_ERR_PENDING) continue;
    int kind = code;
    MPI_Error_class(code, &kind);
    if (kind != MPI_ERR_TRUNCATE) check(code, stream.exchange->operation);
    fail_message(
        provenance(stream),
        fmt::format("a message that fits its room of {} bytes, found more", room_of(chunk)));
  }
  fail(Kind::mpi, "MPI_Testsome failed without a failed request");
}

std::size_t Transfers::State::room_of(const Chunk& chunk) const {
  const Stream& stream = streams[chunk.stream];
  return chunk.is_checksum ? stream.moved : stream.exchange->incoming[stream.index].room.size();
}

MessageOrigin Transfers::State::provenance(const Stream& stream) const {
  return {watchdog->step(), stream.exchange->operation,
          stream.exchange->incoming[stream.index].from};
}

void Transfers::State::sent(const Chunk& chunk) {
  Stream& stream = streams[chunk.stream];
  Peer& to = peer(stream.exchange->outgoing[stream.index].to);
  if (!chunk.is_checksum) --to.in_flight;
  --stream.in_air;
  if (stream.last_taken && stream.in_air == 0) end(chunk.stream);
  send_chunks(to);
}

void Transfers::State::received(const Chunk& chunk, const MPI_Status& status) {
  Stream& stream = streams[chunk.stream];
  Incoming& in = stream.exchange->incoming[stream.index];
  int bytes = 0;
  check(MPI_Get_count(&status, MPI_BYTE, &bytes), stream.exchange->operation);
  const auto length = static_cast<std::size_t>(bytes);
  if (chunk.is_checksum) {
    close(chunk.stream, length);
    return;
  }
  stream.checksum = checksum(in.room.subspan(stream.moved, length), stream.checksum);
  stream.moved += length;
  count.received_bytes += length;
  const std::size_t rule = peer(in.from).rule.chunk_bytes;
  if (rule == 0 || length < rule) {
    receive(chunk.stream, std::as_writable_bytes(std::span(&stream.theirs, 1)), true);
  } else {
    receive_chunk(chunk.stream);
  }
}

void Transfers::State::close(std::uint32_t at, std::size_t checksum_bytes) {
  const Stream& stream = streams[at];
  if (checksum_bytes != sizeof stream.theirs) {
    fail_message(provenance(stream), fmt::format("a checksum of {} bytes, found {} bytes",
                                                 sizeof stream.theirs, checksum_bytes));
  }
  count.received_bytes += checksum_bytes;
  count.received_checksum_bytes += checksum_bytes;
  require_undamaged(provenance(stream), stream.moved, stream.theirs, stream.checksum);
  stream.exchange->incoming[stream.index].bytes = stream.moved;
  end(at);
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
    chunks[kept++] = chunks[i];
  }
  requests.resize(kept);
  chunks.resize(kept);
}

void Transfers::State::arm() {
  const auto awaited = std::find_if(
      open.begin(), open.end(), [](const Exchange* exchange) { return !exchange->at_any_time; });
  if (awaited == open.end()) {
    watchdog->disarm();
  } else {
    watchdog->arm((*awaited)->operation, silent_peer(**awaited));
  }
}

bool Transfers::State::awaits_this_host() const {
  return std::any_of(chunks.begin(), chunks.end(), [this](const Chunk& chunk) {
    const Stream& stream = streams[chunk.stream];
    const Exchange& of = *stream.exchange;
    const Rank other =
        chunk.sending ? of.outgoing[stream.index].to : of.incoming[stream.index].from;
    return peers[static_cast<std::size_t>(other)].within_host;
  });
}

int Transfers::State::silent_peer(const Exchange& exchange) const {
  for (const bool sending : {false, true}) {
    for (const Chunk& chunk : chunks) {
      const Stream& stream = streams[chunk.stream];
      if (stream.exchange != &exchange || chunk.sending != sending) continue;
      return sending ? exchange.outgoing[stream.index].to : exchange.incoming[stream.index].from;
    }
  }
  return Watchdog::kNobody;
}

void Transfers::State::abandon() noexcept {
  for (std::size_t i = 0; i < requests.size(); ++i) {
    if (requests[i] == MPI_REQUEST_NULL) continue;
    if (!chunks[i].sending) MPI_Cancel(&requests[i]);
    MPI_Request_free(&requests[i]);
  }
  requests.clear();
  chunks.clear();
  streams.clear();
  unused.clear();
  open.clear();
  ready.clear();
  next_ready = 0;
  for (Peer& peer : peers) {
    peer.in_flight = 0;
    peer.queued.clear();
  }
  watchdog->disarm();
}

}  // namespace eqt::comm
