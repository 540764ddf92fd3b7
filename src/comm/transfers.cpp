#include "comm/transfers.hpp"

#include <mpi.h>

#include <algorithm>
#include <vector>

#include "comm/mpi_call.hpp"
#include "comm/watchdog.hpp"

namespace eqt::comm {
namespace {

/// The part of a message that MPI has not taken yet.
struct Stream {
  Exchange* exchange = nullptr;
  std::size_t index = 0;                  // in the exchange's outgoing or incoming
  std::span<const std::byte> bytes = {};  // outgoing
  std::size_t moved = 0;                  // bytes that MPI has taken or brought
  std::uint32_t in_air = 0;               // chunks in MPI's hands
  bool last_taken = false;                // no further chunk follows
};

/// A chunk in MPI's hands.
struct Chunk {
  std::uint32_t stream = 0;  // in the table of streams
  bool sending = false;
  std::size_t bytes = 0;  // sent, or room to receive
};

constexpr std::uint32_t kNone = 0xFFFFFFFFu;

}  // namespace

struct Transfers::State {
  MPI_Comm comm;
  Watchdog* watchdog;
  int rank, size;
  ByteCount count;
  std::vector<std::uint64_t> sent_to;  // point-to-point bytes, by receiver
  std::atomic<bool> cancelled{false};
  Patience patience;

  std::vector<Stream> streams;  // some unused
  std::vector<std::uint32_t> unused;
  struct Peer {
    ChunkRule rule;
    bool within_host = false;
    int in_flight = 0;                  // chunks on their way to this peer
    std::vector<std::uint32_t> queued;  // streams that MPI has not taken whole, most urgent first
  };
  std::vector<Peer> peers;
  std::vector<MPI_Request> requests;  // beside `chunks`
  std::vector<Chunk> chunks;
  std::vector<int> finished;
  std::vector<MPI_Status> statuses;
  std::vector<Exchange*> open;  // in the order of their start
  std::vector<std::coroutine_handle<>> ready;
  std::size_t next_ready = 0;
  std::atomic<Spoil> spoil{Spoil::none};
  std::vector<std::byte> spoiled;  // a copy of the message that is sent with an error

  State(MPI_Comm of, Watchdog& dog, int my_rank, int ranks)
      : comm(of),
        watchdog(&dog),
        rank(my_rank),
        size(ranks),
        sent_to(static_cast<std::size_t>(ranks)),
        peers(static_cast<std::size_t>(ranks)) {
    constexpr std::size_t kExpected = 64;
    const std::size_t most = kExpected * peers.size();
    streams.reserve(most);
    unused.reserve(most);
    requests.reserve(most);
    chunks.reserve(most);
    finished.reserve(most);
    statuses.reserve(most);
    open.reserve(kExpected);
    ready.reserve(kExpected);
    for (Peer& peer : peers) peer.queued.reserve(kExpected);
  }

  Peer& peer(Rank r) { return peers[static_cast<std::size_t>(r)]; }

  std::uint32_t take_stream(Exchange& exchange, std::size_t index) {
    if (unused.empty()) {
      unused.push_back(static_cast<std::uint32_t>(streams.size()));
      streams.emplace_back();
    }
    const std::uint32_t at = unused.back();
    unused.pop_back();
    streams[at] = {.exchange = &exchange, .index = index};
    return at;
  }

  void start(Exchange& exchange) {
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
      receive_chunk(take_stream(exchange, i));
    }
    for (std::size_t i = 0; i < exchange.outgoing.size(); ++i) {
      const Rank to = exchange.outgoing[i].to;
      const std::uint32_t at = take_stream(exchange, i);
      streams[at].bytes = exchange.outgoing[i].bytes;
      if (spoil != Spoil::none && spoil_message(at)) continue;
      queue(peer(to), at);
      send_chunks(peer(to));
    }
  }

  /// True if nothing is left to send.
  bool spoil_message(std::uint32_t at) {
    std::span<const std::byte>& bytes = streams[at].bytes;
    if (bytes.empty()) return false;
    if (spoil == Spoil::drop) {
      end(at);
      return true;
    }
    spoiled.assign(bytes.begin(), bytes.end());
    if (spoil == Spoil::truncate) spoiled.pop_back();
    // Far behind the headers, where only a sum over all bytes can tell.
    if (spoil == Spoil::flip) spoiled[spoiled.size() / 4 * 3] ^= std::byte{0x10};
    spoil = Spoil::none;
    bytes = spoiled;
    return false;
  }

  /// Behind all that is as urgent.
  void queue(Peer& to, std::uint32_t stream) {
    const auto priority = [this](std::uint32_t s) { return streams[s].exchange->route.priority; };
    const auto place = std::upper_bound(
        to.queued.begin(), to.queued.end(), priority(stream),
        [&](std::uint32_t value, std::uint32_t queued) { return value < priority(queued); });
    to.queued.insert(place, stream);
  }

  int tag(const Exchange& exchange) const {
    return kFirstChannelTag + static_cast<int>(exchange.route.channel);
  }

  void send_chunks(Peer& to) {
    while (!to.queued.empty() && to.in_flight < to.rule.in_flight) {
      const std::uint32_t at = to.queued.front();
      Stream& stream = streams[at];
      const Outgoing& out = stream.exchange->outgoing[stream.index];
      const std::size_t left = stream.bytes.size() - stream.moved;
      const std::size_t most = to.rule.chunk_bytes == 0 ? left : to.rule.chunk_bytes;
      const std::size_t bytes = std::min(left, most);
      add_request(at, true, bytes);
      check(MPI_Isend(stream.bytes.data() + stream.moved, checked_int(bytes), MPI_BYTE, out.to,
                      tag(*stream.exchange), comm, &requests.back()),
            stream.exchange->operation);
      stream.moved += bytes;
      ++stream.in_air;
      ++to.in_flight;
      count.sent_bytes += bytes;
      sent_to[static_cast<std::size_t>(out.to)] += bytes;
      if (to.within_host) count.sent_on_host_bytes += bytes;
      ++count.messages;
      // A chunk of full length promises another, if only an empty one.
      if (bytes < most || to.rule.chunk_bytes == 0) {
        stream.last_taken = true;
        to.queued.erase(to.queued.begin());
      }
    }
  }

  void receive_chunk(std::uint32_t at) {
    Stream& stream = streams[at];
    const Incoming& in = stream.exchange->incoming[stream.index];
    const std::size_t left = in.room.size() - stream.moved;
    const std::size_t rule = peer(in.from).rule.chunk_bytes;
    const std::size_t bytes = rule == 0 ? left : std::min(left, rule);
    add_request(at, false, bytes);
    check(MPI_Irecv(in.room.data() + stream.moved, checked_int(bytes), MPI_BYTE, in.from,
                    tag(*stream.exchange), comm, &requests.back()),
          stream.exchange->operation);
  }

  void add_request(std::uint32_t stream, bool sending, std::size_t bytes) {
    requests.push_back(MPI_REQUEST_NULL);
    chunks.push_back({.stream = stream, .sending = sending, .bytes = bytes});
  }

  bool progress() {
    if (requests.empty()) return false;
    finished.resize(requests.size());
    statuses.resize(requests.size());
    int n = 0;
    const char* const operation = open.empty() ? "MPI_Testsome" : open.front()->operation;
    check(MPI_Testsome(checked_int(requests.size()), requests.data(), &n, finished.data(),
                       statuses.data()),
          operation);
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

  void sent(const Chunk& chunk) {
    Stream& stream = streams[chunk.stream];
    Peer& to = peer(stream.exchange->outgoing[stream.index].to);
    --to.in_flight;
    --stream.in_air;
    if (stream.last_taken && stream.in_air == 0) end(chunk.stream);
    send_chunks(to);
  }

  void received(const Chunk& chunk, const MPI_Status& status) {
    Stream& stream = streams[chunk.stream];
    Incoming& in = stream.exchange->incoming[stream.index];
    int bytes = 0;
    check(MPI_Get_count(&status, MPI_BYTE, &bytes), stream.exchange->operation);
    stream.moved += static_cast<std::size_t>(bytes);
    count.received_bytes += static_cast<std::size_t>(bytes);
    const std::size_t rule = peer(in.from).rule.chunk_bytes;
    if (rule == 0 || static_cast<std::size_t>(bytes) < rule) {
      in.bytes = stream.moved;
      end(chunk.stream);
    } else {
      receive_chunk(chunk.stream);
    }
  }

  void end(std::uint32_t at) {
    Exchange& exchange = *streams[at].exchange;
    unused.push_back(at);
    if (--exchange.open > 0) return;
    open.erase(std::find(open.begin(), open.end(), &exchange));
    finish(exchange);
  }

  void finish(Exchange& exchange) {
    if (exchange.waiter) ready.push_back(exchange.waiter);
  }

  void remove_finished() {
    std::size_t kept = 0;
    for (std::size_t i = 0; i < requests.size(); ++i) {
      if (requests[i] == MPI_REQUEST_NULL) continue;
      requests[kept] = requests[i];
      chunks[kept++] = chunks[i];
    }
    requests.resize(kept);
    chunks.resize(kept);
  }

  /// The deadline starts anew whenever something moves.
  void arm() {
    const auto awaited = std::find_if(
        open.begin(), open.end(), [](const Exchange* exchange) { return !exchange->at_any_time; });
    if (awaited == open.end()) {
      watchdog->disarm();
    } else {
      watchdog->arm((*awaited)->operation, silent_peer(**awaited));
    }
  }

  bool awaits_this_host() const {
    return std::any_of(chunks.begin(), chunks.end(), [this](const Chunk& chunk) {
      const Stream& stream = streams[chunk.stream];
      const Exchange& of = *stream.exchange;
      const Rank other =
          chunk.sending ? of.outgoing[stream.index].to : of.incoming[stream.index].from;
      return peers[static_cast<std::size_t>(other)].within_host;
    });
  }

  int silent_peer(const Exchange& exchange) const {
    for (const bool sending : {false, true}) {
      for (const Chunk& chunk : chunks) {
        const Stream& stream = streams[chunk.stream];
        if (stream.exchange != &exchange || chunk.sending != sending) continue;
        return sending ? exchange.outgoing[stream.index].to : exchange.incoming[stream.index].from;
      }
    }
    return Watchdog::kNobody;
  }

  void abandon() noexcept {
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
};

Transfers::Transfers(void* comm, Watchdog& watchdog, int rank, int size)
    : state_(std::make_unique<State>(*static_cast<MPI_Comm*>(comm), watchdog, rank, size)) {}

Transfers::~Transfers() { state_->abandon(); }

void Transfers::set_chunk_rule(Rank peer, ChunkRule rule, bool within_host) {
  EQT_CHECK(state_->open.empty() && rule.in_flight > 0, "a chunk rule of {} in flight",
            rule.in_flight);
  state_->peer(peer).rule = rule;
  state_->peer(peer).within_host = within_host;
}

void Transfers::set_watchdog(Watchdog& watchdog) { state_->watchdog = &watchdog; }
void Transfers::start(Exchange& exchange) { state_->start(exchange); }
bool Transfers::progress() { return state_->progress(); }
const ByteCount& Transfers::byte_count() const noexcept { return state_->count; }
std::span<const std::uint64_t> Transfers::sent_bytes_by_peer() const noexcept {
  return state_->sent_to;
}
void Transfers::spoil(Spoil how) { state_->spoil = how; }
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

void Transfers::reset_patience() noexcept { state_->patience.reset(); }

void Transfers::progress_or_pause() {
  State& s = *state_;
  if (s.cancelled.load(std::memory_order_relaxed)) {
    fail(Kind::mpi, "{} was given up because of another error",
         s.open.empty() ? "waiting" : s.open.front()->operation);
  }
  if (s.progress()) {
    s.patience.reset();
  } else {
    s.patience.pause(s.awaits_this_host());
  }
}

void Transfers::wait(const Exchange& exchange) {
  state_->patience.reset();
  while (!exchange.done()) progress_or_pause();
}

void Transfers::count(std::uint64_t sent_bytes, std::uint64_t received_bytes,
                      std::uint64_t messages) {
  state_->count.sent_bytes += sent_bytes;
  state_->count.received_bytes += received_bytes;
  state_->count.messages += messages;
}

}  // namespace eqt::comm
