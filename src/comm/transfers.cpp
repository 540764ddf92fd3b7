#include "comm/transfers.hpp"

#include <mpi.h>

#include <algorithm>
#include <deque>
#include <utility>
#include <vector>

#include "comm/damage.hpp"
#include "comm/mpi_call.hpp"
#include "comm/watchdog.hpp"
#include "core/checksum.hpp"

namespace eqt::comm {
namespace {

/// The part of a message that MPI has not taken yet.
struct Stream {
  Exchange* exchange = nullptr;
  std::size_t index = 0;       // in the exchange's outgoing or incoming
  std::size_t moved = 0;       // bytes that MPI has taken or brought
  std::uint32_t in_air = 0;    // chunks in MPI's hands
  bool last_taken = false;     // no further chunk follows
  std::uint64_t checksum = 0;  // of the bytes moved so far
  std::uint64_t theirs = 0;    // as received
};

/// A chunk in MPI's hands.
struct Chunk {
  std::uint32_t stream = 0;  // in the table of streams
  bool sending = false;
  bool is_checksum = false;
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

  std::deque<Stream> streams;  // some unused; MPI holds pointers into them
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
  Tamper tamper;                              // may be empty
  std::deque<std::vector<std::byte>> forged;  // what it gave
  std::atomic<Spoil> spoil{Spoil::none};

  State(MPI_Comm of, Watchdog& dog, int my_rank, int ranks)
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

  void add_stream() {
    unused.push_back(static_cast<std::uint32_t>(streams.size()));
    streams.emplace_back();
  }

  Peer& peer(Rank r) { return peers[static_cast<std::size_t>(r)]; }

  std::uint32_t take_stream(Exchange& exchange, std::size_t index) {
    if (unused.empty()) add_stream();
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
      const std::uint32_t stream = take_stream(exchange, i);
      streams[stream].checksum = first_seed(exchange, exchange.incoming[i].from);
      receive_chunk(stream);
    }
    for (std::size_t i = 0; i < exchange.outgoing.size(); ++i) {
      const Rank to = exchange.outgoing[i].to;
      const std::uint32_t stream = take_stream(exchange, i);
      if (spoil == Spoil::drop && !exchange.outgoing[i].bytes.empty()) {
        end(stream);
        continue;
      }
      streams[stream].checksum = first_seed(exchange, rank);
      queue(peer(to), stream);
      send_chunks(peer(to));
    }
  }

  /// Behind all that is as urgent.
  void queue(Peer& to, std::uint32_t stream) {
    const auto priority = [this](std::uint32_t s) { return streams[s].exchange->route.priority; };
    const auto place = std::upper_bound(
        to.queued.begin(), to.queued.end(), priority(stream),
        [&](std::uint32_t value, std::uint32_t queued) { return value < priority(queued); });
    to.queued.insert(place, stream);
  }

  /// A message that went astray fits no checksum.
  static std::uint64_t first_seed(const Exchange& exchange, Rank sender) {
    return std::uint64_t{exchange.route.channel} << 32 | static_cast<std::uint32_t>(sender);
  }

  int tag(const Exchange& exchange) const {
    return kFirstChannelTag + static_cast<int>(exchange.route.channel);
  }

  void send_chunks(Peer& to) {
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

  /// Takes the checksum of `bytes` while they are on their way through the caches anyway.
  void send_piece(std::uint32_t at, std::span<const std::byte> bytes) {
    Stream& stream = streams[at];
    const Rank to = stream.exchange->outgoing[stream.index].to;
    stream.checksum = checksum(bytes, stream.checksum);
    if (auto other = forge(bytes, to)) bytes = forged.emplace_back(*std::move(other));
    send(at, bytes, false);
  }

  /// What a fault that was asked for makes of the bytes; mostly nothing.
  std::optional<std::vector<std::byte>> forge(std::span<const std::byte> bytes, Rank to) {
    if (tamper) return tamper(bytes, to);
    const Spoil how = spoil;
    if (bytes.empty() || (how != Spoil::flip && how != Spoil::truncate)) return std::nullopt;
    spoil = Spoil::none;
    std::vector<std::byte> other(bytes.begin(), bytes.end());
    if (how == Spoil::truncate) other.pop_back();
    // Far behind the headers, where only a sum over all bytes can tell.
    if (how == Spoil::flip) other[other.size() / 4 * 3] ^= std::byte{0x10};
    return other;
  }

  /// It needs no place among the chunks in flight: it is as short as their headers.
  void send_checksum(std::uint32_t at) {
    const auto sum = std::as_bytes(std::span(&streams[at].checksum, 1));
    const Rank to = streams[at].exchange->outgoing[streams[at].index].to;
    send(at, sum, true);
    count.sent_bytes += sum.size();
    count.sent_checksum_bytes += sum.size();
    sent_to[static_cast<std::size_t>(to)] += sum.size();
    if (peer(to).within_host) count.sent_on_host_bytes += sum.size();
  }

  void send(std::uint32_t at, std::span<const std::byte> bytes, bool is_checksum) {
    const Exchange& exchange = *streams[at].exchange;
    add_request({.stream = at, .sending = true, .is_checksum = is_checksum});
    check(MPI_Isend(bytes.data(), checked_int(bytes.size()), MPI_BYTE,
                    exchange.outgoing[streams[at].index].to, tag(exchange), comm, &requests.back()),
          exchange.operation);
    ++streams[at].in_air;
  }

  void receive_chunk(std::uint32_t at) {
    Stream& stream = streams[at];
    const Incoming& in = stream.exchange->incoming[stream.index];
    const std::size_t left = in.room.size() - stream.moved;
    const std::size_t rule = peer(in.from).rule.chunk_bytes;
    const std::size_t bytes = rule == 0 ? left : std::min(left, rule);
    receive(at, in.room.subspan(stream.moved, bytes), false);
  }

  void receive(std::uint32_t at, std::span<std::byte> room, bool is_checksum) {
    const Exchange& exchange = *streams[at].exchange;
    add_request({.stream = at, .is_checksum = is_checksum});
    check(
        MPI_Irecv(room.data(), checked_int(room.size()), MPI_BYTE,
                  exchange.incoming[streams[at].index].from, tag(exchange), comm, &requests.back()),
        exchange.operation);
  }

  void add_request(const Chunk& chunk) {
    requests.push_back(MPI_REQUEST_NULL);
    chunks.push_back(chunk);
  }

  bool progress() {
    if (requests.empty()) return false;
    finished.resize(requests.size());
    statuses.resize(requests.size());
    int n = 0;
    const char* const operation = open.empty() ? "MPI_Testsome" : open.front()->operation;
    const int code = MPI_Testsome(checked_int(requests.size()), requests.data(), &n,
                                  finished.data(), statuses.data());
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

  /// Says which of the `n` finished requests failed and why.
  [[noreturn]] void fail_finished(int n) {
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

  std::size_t room_of(const Chunk& chunk) const {
    const Stream& stream = streams[chunk.stream];
    return chunk.is_checksum ? stream.moved : stream.exchange->incoming[stream.index].room.size();
  }

  Provenance provenance(const Stream& stream) const {
    return {watchdog->step(), stream.exchange->operation,
            stream.exchange->incoming[stream.index].from};
  }

  void sent(const Chunk& chunk) {
    Stream& stream = streams[chunk.stream];
    Peer& to = peer(stream.exchange->outgoing[stream.index].to);
    if (!chunk.is_checksum) --to.in_flight;
    --stream.in_air;
    if (stream.last_taken && stream.in_air == 0) end(chunk.stream);
    send_chunks(to);
  }

  void received(const Chunk& chunk, const MPI_Status& status) {
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

  /// A message's bytes are there, and so is its checksum.
  void close(std::uint32_t at, std::size_t checksum_bytes) {
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

void Transfers::set_tamper(Tamper tamper) { state_->tamper = std::move(tamper); }
void Transfers::set_watchdog(Watchdog& watchdog) { state_->watchdog = &watchdog; }
void Transfers::start(Exchange& exchange) { state_->start(exchange); }
bool Transfers::progress() { return state_->progress(); }
const ByteCount& Transfers::byte_count() const noexcept { return state_->count; }
std::span<const std::uint64_t> Transfers::sent_bytes_by_peer() const noexcept {
  return state_->sent_to;
}
void Transfers::spoil(Spoil how) { state_->spoil = how; }

std::vector<std::byte> Transfers::forge_for_mpi(std::span<const std::byte> bytes) {
  if (!state_->tamper && state_->spoil != Spoil::flip) return {};
  auto other = state_->forge(bytes, Watchdog::kNobody);
  return other && other->size() == bytes.size() ? *std::move(other) : std::vector<std::byte>();
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

void Transfers::reset_patience() noexcept { state_->patience.reset(); }

void Transfers::progress_or_pause() {
  State& s = *state_;
  if (s.cancelled.load(std::memory_order_relaxed)) {
    fail(Kind::mpi, "{} was given up because of another error",
         s.open.empty() ? "waiting" : s.open.front()->operation);
  }
  if (s.progress()) {
    s.patience.moved();
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
  state_->count.estimated_bytes += sent_bytes;
}

void Transfers::count_note(std::uint64_t sent_bytes, std::uint64_t received_bytes) {
  state_->count.sent_bytes += sent_bytes;
  state_->count.received_bytes += received_bytes;
  state_->count.messages += sent_bytes > 0 ? 1 : 0;
}

}  // namespace eqt::comm
