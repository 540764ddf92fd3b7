// SPDX-License-Identifier: Apache-2.0
// The rounds of disjoint pairs run one after the other and share the time equally. Ranks that are
// not in a round sleep in the allgather at its end; the two that are in it poll.
//
// Latency is half a round trip of one byte, polled without sleeping: polling with sleeps adds 50 to
// 200 us to every message (sleeps of 10 us begin after a millisecond). Only the fastest tenth of
// the trips counts, because slower ones waited for a core.
//
// Bandwidth is the slope of bytes over time at the receiver, after the first part of a stream. The
// first part is what a token bucket lets pass at any speed (128 KiB by default in our network
// laboratory), what fills the buffers on the way, and TCP's slow start. Streams double in size
// until the next one would not fit into the given time. The last part does not count either: the
// kernel passes on 64 KiB at a time, but a smaller rest sooner.
//
// Fragments of 32 KiB are sent eagerly by Open MPI's TCP (limit 64 KiB): no answer has to come back
// through a direction that is full of data, which is what the duplex figure measures.

#include "comm/link_probe.hpp"

#include <mpi.h>
#include <sched.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <exception>
#include <functional>
#include <map>
#include <span>
#include <thread>
#include <utility>

#include "comm/mpi_call.hpp"
#include "comm/watchdog.hpp"
#include "core/clock.hpp"

namespace eqt::comm {
namespace {

/// Two ranks measure the link between them.
class PairProbe {
 public:
  /// @param comm errors must return codes
  PairProbe(MPI_Comm comm, Rank self, Rank peer);

  /// Both ranks call it. Takes about `seconds`; more where three times 512 KiB take longer.
  PairSpeed measure(double seconds);

 private:
  struct Arrival {
    double bytes_per_second = 0;  // of what came after the first part
    double span_seconds = 0;      // duration of that part
    double elapsed_seconds = 0;   // until everything had arrived
  };
  struct Measurement {  // what a receiver reports to its sender
    double bytes_per_second = 0;
    double go_on = 0;
  };

  double latency(double seconds);
  double one_way(bool sends, double seconds);
  Arrival stream(std::size_t out_bytes, std::size_t in_bytes);
  template <typename Value>
  Value swap(const Value& mine);

  MPI_Comm comm_;
  Rank peer_;
  bool first_;  // of the pair
  std::vector<std::byte> out_, in_;
};

enum ProbeTag : int { kPingTag = 1, kDataTag = 2, kWordTag = 3 };

constexpr std::size_t kWindow = 16;  // messages in flight each way
constexpr std::size_t kMinFragment = std::size_t{32} << 10,
                      kLargestFragment = std::size_t{256} << 10;
constexpr std::size_t kFirstPart = std::size_t{160} << 10, kLastPart = std::size_t{64} << 10;
constexpr std::size_t kLargestBuffers = std::size_t{16} << 20;  // of sockets and queues
constexpr std::size_t kTrustedStream = std::size_t{512} << 10;
constexpr std::size_t kMinStream = std::size_t{64} << 10, kLargestStream = std::size_t{1} << 30;
constexpr int kWarmUps = 3, kMinPings = 7, kMaxPings = 201;
constexpr double kMinSpan = 1e-6;       // seconds between two arrivals, for a rate
constexpr double kTrustedSpan = 50e-3;  // seconds; on a link this slow a short stream must do
constexpr double kLargestGain = 1.5;    // of a slope over the average of its stream
constexpr double kPrompt = 200e-6;      // seconds between checking and finding
constexpr unsigned kPollsPerYield = 16;
constexpr double kEagerSeconds = 1e-3;  // of polling; then short sleeps: others need cores too
constexpr const char* kOperation = "link probe";

/// Fast links get larger fragments, because there the cost of a message would be visible.
std::size_t fragment_of(std::size_t stream_bytes) {
  return std::clamp(stream_bytes / 1024, kMinFragment, kLargestFragment);
}

std::size_t first_part_of(std::size_t stream_bytes) {
  return std::min(stream_bytes / 2, kFirstPart);
}

std::size_t last_part_of(std::size_t stream_bytes) { return std::min(stream_bytes / 4, kLastPart); }

std::size_t stream_for(double bytes_per_second, double seconds) {
  constexpr double kSlowLink = 1e6;  // bytes per second; there half of the least stream must do
  const auto wanted = static_cast<std::size_t>(std::max(0.0, bytes_per_second * seconds));
  const auto least = bytes_per_second < kSlowLink ? kTrustedStream / 2 : kTrustedStream;
  return std::clamp(wanted, least, kLargestStream);
}

/// The pause between two checks: none, or now and then a yield, because on a host with more ranks
/// than cores the peer may wait for this rank's core. After a millisecond short sleeps follow,
/// which then no longer affect the result.
class ProbeBackoff {
 public:
  void pause() {
    if (++polls_ % kPollsPerYield != 0) return;
    if (waited_.seconds() < kEagerSeconds) {
      sched_yield();
    } else {
      std::this_thread::sleep_for(std::chrono::microseconds(10));
    }
  }

 private:
  unsigned polls_ = 0;
  Stopwatch waited_;
};

void poll(std::span<MPI_Request> requests) {
  for (ProbeBackoff backoff;; backoff.pause()) {
    int done = 0;
    check(
        MPI_Testall(static_cast<int>(requests.size()), requests.data(), &done, MPI_STATUSES_IGNORE),
        kOperation);
    if (done != 0) return;
  }
}

/// The number of bytes that had arrived at some moment.
struct Sample {
  double seconds;
  std::size_t bytes;
  bool prompt;  // nothing was there a moment before: this is the time of arrival
};

/// The median of the slopes over half of the samples. A receiver that loses its core for a while
/// finds a full buffer afterwards. The ends alone, and samples of data that had been waiting, would
/// be wrong by that while.
/// @param whole the stream's last sample
/// @return bytes per second
double slope(std::vector<Sample> samples, const Sample& whole) {
  const auto is_late = [](const Sample& sample) { return !sample.prompt; };
  const auto late = std::count_if(samples.begin(), samples.end(), is_late);
  const double average = static_cast<double>(whole.bytes) / std::max(whole.seconds, kMinSpan);
  // Data is always waiting on a fast link, but also if the receiver hardly got its core. In the
  // second case a whole short stream may already be in the buffers, and its slope says nothing.
  if (2 * static_cast<std::size_t>(late) < samples.size()) {
    std::erase_if(samples, is_late);
  } else if (whole.bytes < kLargestBuffers) {
    return average;
  }
  const std::size_t half = samples.size() / 2;
  std::vector<double> slopes;
  for (std::size_t i = 0; i + half < samples.size() && half > 0; ++i) {
    const Sample &from = samples[i], &to = samples[i + half];
    if (to.seconds - from.seconds < kMinSpan) continue;
    slopes.push_back(static_cast<double>(to.bytes - from.bytes) / (to.seconds - from.seconds));
  }
  if (slopes.empty()) return average;
  const auto middle = slopes.begin() + static_cast<std::ptrdiff_t>(slopes.size() / 2);
  std::nth_element(slopes.begin(), middle, slopes.end());
  return std::min(*middle, kLargestGain * average);
}

/// One direction of a stream: fragments in order, with a slot for each fragment in flight.
class StreamDirection {
 public:
  using Post = std::function<int(std::size_t slot, std::size_t bytes)>;
  StreamDirection(std::size_t bytes, Post post) : bytes_(bytes), post_(std::move(post)) {}

  void fill_window() {
    for (std::size_t slot = 0; slot < kWindow; ++slot) post(slot);
  }
  /// The fragment in `slot` has moved; the next one uses the slot.
  void next(std::size_t slot) {
    moved_ += in_flight_[slot];
    post(slot);
  }
  std::size_t moved() const { return moved_; }
  bool ended() const { return moved_ == bytes_; }

 private:
  void post(std::size_t slot) {
    in_flight_[slot] = std::min(fragment_of(bytes_), bytes_ - posted_);
    if (in_flight_[slot] == 0) return;
    posted_ += in_flight_[slot];
    check(post_(slot, in_flight_[slot]), kOperation);
  }

  std::size_t bytes_, posted_ = 0, moved_ = 0;
  std::array<std::size_t, kWindow> in_flight_{};
  Post post_;
};

PairProbe::PairProbe(MPI_Comm comm, Rank self, Rank peer)
    : comm_(comm),
      peer_(peer),
      first_(self < peer),
      out_(kWindow * kLargestFragment),
      in_(kWindow * kLargestFragment) {}

PairSpeed PairProbe::measure(double seconds) {
  PairSpeed speed;
  speed.sent.latency_seconds = speed.received.latency_seconds = latency(0.1 * seconds);
  const double forward = one_way(first_, 0.3 * seconds);
  const double backward = one_way(!first_, 0.3 * seconds);
  speed.sent.bytes_per_second = first_ ? forward : backward;
  speed.received.bytes_per_second = first_ ? backward : forward;
  // Each direction sends as many bytes as it can in the same time, so that both end together.
  const Arrival arrival = stream(stream_for(speed.sent.bytes_per_second, 0.3 * seconds),
                                 stream_for(speed.received.bytes_per_second, 0.3 * seconds));
  speed.received.duplex_bytes_per_second = arrival.bytes_per_second;
  speed.sent.duplex_bytes_per_second = swap(arrival.bytes_per_second);
  return speed;
}

/// The first rank of the pair measures; its message says whether there is another one.
double PairProbe::latency(double seconds) {
  std::vector<double> trips;
  std::byte more{1};
  const Stopwatch whole;
  for (int i = 0; more != std::byte{0}; ++i) {
    const bool enough = whole.seconds() > seconds && i >= kWarmUps + kMinPings;
    if (first_) more = std::byte{i + 1 < kWarmUps + kMaxPings && !enough};
    const Stopwatch trip;
    for (const bool sends : {first_, !first_}) {
      MPI_Request request = MPI_REQUEST_NULL;
      check(sends ? MPI_Isend(&more, 1, MPI_BYTE, peer_, kPingTag, comm_, &request)
                  : MPI_Irecv(&more, 1, MPI_BYTE, peer_, kPingTag, comm_, &request),
            kOperation);
      poll(std::span(&request, 1));
    }
    if (i >= kWarmUps) trips.push_back(trip.seconds());
  }
  const auto fast = trips.begin() + static_cast<std::ptrdiff_t>(trips.size() / 10);
  std::nth_element(trips.begin(), fast, trips.end());
  const double theirs = swap(*fast / 2);
  return first_ ? *fast / 2 : theirs;
}

/// @return bytes per second, the same on both ranks
double PairProbe::one_way(bool sends, double seconds) {
  const Stopwatch whole;
  for (std::size_t bytes = kMinStream;; bytes *= 2) {
    const Arrival arrival = stream(sends ? bytes : 0, sends ? 0 : bytes);
    const bool fits = whole.seconds() + 2 * arrival.elapsed_seconds < seconds;
    const bool trusted = arrival.bytes_per_second > 0 &&
                         (bytes >= kTrustedStream ||
                          (bytes >= kTrustedStream / 2 && arrival.span_seconds > kTrustedSpan));
    Measurement measured{.bytes_per_second = arrival.bytes_per_second,
                         .go_on = bytes < kLargestStream && (fits || !trusted) ? 1.0 : 0.0};
    const Measurement theirs = swap(measured);
    if (sends) measured = theirs;
    if (measured.go_on == 0) return measured.bytes_per_second;
  }
}

/// Sends and receives that many bytes in fragments, kWindow of them in flight each way.
PairProbe::Arrival PairProbe::stream(std::size_t out_bytes, std::size_t in_bytes) {
  std::array<MPI_Request, 2 * kWindow> requests;
  requests.fill(MPI_REQUEST_NULL);
  StreamDirection in(in_bytes, [&](std::size_t slot, std::size_t bytes) {
    return MPI_Irecv(in_.data() + slot * kLargestFragment, static_cast<int>(bytes), MPI_BYTE, peer_,
                     kDataTag, comm_, &requests[slot]);
  });
  StreamDirection out(out_bytes, [&](std::size_t slot, std::size_t bytes) {
    return MPI_Isend(out_.data() + slot * kLargestFragment, static_cast<int>(bytes), MPI_BYTE,
                     peer_, kDataTag, comm_, &requests[kWindow + slot]);
  });
  in.fill_window();
  swap(0.0);  // both ranks are ready to receive
  const Stopwatch clock;
  out.fill_window();

  std::vector<Sample> samples;
  samples.reserve(in_bytes / fragment_of(in_bytes) + 1);
  std::array<int, 2 * kWindow> done{};
  double seen_empty = -1;  // seconds; before the start: something was there at the last check
  ProbeBackoff backoff;
  while (!in.ended() || !out.ended()) {
    int count = 0;
    check(MPI_Testsome(static_cast<int>(requests.size()), requests.data(), &count, done.data(),
                       MPI_STATUSES_IGNORE),
          kOperation);
    const double now = clock.seconds();
    if (count <= 0) {
      seen_empty = now;
      backoff.pause();
      continue;
    }
    backoff = ProbeBackoff();
    const std::size_t before = in.moved();
    for (int i = 0; i < count; ++i) {
      const auto request = static_cast<std::size_t>(done[static_cast<std::size_t>(i)]);
      request < kWindow ? in.next(request) : out.next(request - kWindow);
    }
    if (in.moved() > before)
      samples.push_back({now, in.moved(), seen_empty >= 0 && now - seen_empty < kPrompt});
    seen_empty = -1;
  }
  if (samples.empty()) return {};
  const Sample whole = samples.back();
  const double end = whole.seconds;
  const std::size_t first = first_part_of(in_bytes), last = in_bytes - last_part_of(in_bytes);
  std::erase_if(samples, [&](const Sample& s) { return s.bytes < first || s.bytes > last; });
  return {.bytes_per_second = slope(samples, whole),
          .span_seconds = samples.empty() ? 0 : samples.back().seconds - samples.front().seconds,
          .elapsed_seconds = end};
}

template <typename Value>
Value PairProbe::swap(const Value& mine) {
  Value theirs{};
  std::array<MPI_Request, 2> requests{};
  check(MPI_Irecv(&theirs, sizeof theirs, MPI_BYTE, peer_, kWordTag, comm_, &requests[0]),
        kOperation);
  check(MPI_Isend(&mine, sizeof mine, MPI_BYTE, peer_, kWordTag, comm_, &requests[1]), kOperation);
  poll(requests);
  return theirs;
}

constexpr double kLongestPairSeconds = 0.8;  // more time does not make the figures better
constexpr std::size_t kFigures = 6;          // per link

/// A duplicate of MPI_COMM_WORLD, so that no other message is mixed with those of the probe.
class ProbeWorld {
 public:
  ProbeWorld() {
    check(MPI_Comm_dup(MPI_COMM_WORLD, &comm_), "MPI_Comm_dup");
    check(MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  }
  ~ProbeWorld() {
    // Freeing is collective: if an error unwinds on one rank, the others will not take part.
    if (std::uncaught_exceptions() == 0) check_quietly(MPI_Comm_free(&comm_), "MPI_Comm_free");
  }
  ProbeWorld(const ProbeWorld&) = delete;
  ProbeWorld& operator=(const ProbeWorld&) = delete;
  MPI_Comm get() const { return comm_; }

 private:
  MPI_Comm comm_ = MPI_COMM_NULL;
};

std::array<double, kFigures> figures_of(const Link& link) {
  return {link.forward.latency_seconds,         link.forward.bytes_per_second,
          link.forward.duplex_bytes_per_second, link.backward.latency_seconds,
          link.backward.bytes_per_second,       link.backward.duplex_bytes_per_second};
}

void set_figures(Link& link, std::span<const double, kFigures> figures) {
  link.forward = {figures[0], figures[1], figures[2]};
  link.backward = {figures[3], figures[4], figures[5]};
}

/// The first rank of each pair knows its link; all other ranks have zeros, so the sum is exact.
void share(Communicator& comm, std::vector<Link>& links) {
  std::vector<double> figures(kFigures * links.size());
  for (std::size_t i = 0; i < links.size(); ++i) {
    if (links[i].first != comm.rank()) continue;
    const auto mine = figures_of(links[i]);
    std::copy(mine.begin(), mine.end(),
              figures.begin() + static_cast<std::ptrdiff_t>(kFigures * i));
  }
  comm.allreduce_sum(std::span<double>(figures));
  for (std::size_t i = 0; i < links.size(); ++i) {
    set_figures(links[i],
                std::span<const double, kFigures>(figures.data() + kFigures * i, kFigures));
  }
}

}  // namespace

std::vector<ProbeRound> round_robin(std::span<const Rank> members) {
  constexpr Rank kNobody = -1;
  std::vector<Rank> order(members.begin(), members.end());
  if (order.size() < 2) return {};
  if (order.size() % 2 != 0) order.push_back(kNobody);
  std::vector<ProbeRound> rounds(order.size() - 1);
  for (ProbeRound& round : rounds) {
    for (std::size_t i = 0; i < order.size() / 2; ++i) {
      const auto [low, high] = std::minmax(order[i], order[order.size() - 1 - i]);
      if (low != kNobody) round.push_back({low, high});
    }
    std::rotate(order.begin() + 1, order.end() - 1, order.end());
  }
  return rounds;
}

std::vector<ProbeRound> probe_schedule(std::span<const Rank> first_on_host) {
  std::map<Rank, std::vector<Rank>> hosts;  // first rank → the others there
  for (std::size_t r = 0; r < first_on_host.size(); ++r) {
    auto& others = hosts[first_on_host[r]];
    if (const auto rank = static_cast<Rank>(r); rank != first_on_host[r]) others.push_back(rank);
  }
  std::vector<Rank> representatives;
  for (const auto& [first, others] : hosts) representatives.push_back(first);

  std::vector<ProbeRound> rounds = round_robin(representatives);
  for (std::size_t k = 0; k < std::size_t{kProbedNeighbours}; ++k) {
    ProbeRound round;
    for (const auto& [first, others] : hosts) {
      if (k < others.size()) round.push_back({first, others[k]});
    }
    if (round.empty()) break;
    rounds.push_back(std::move(round));
  }
  return rounds;
}

std::vector<Rank> first_ranks_on_hosts(Communicator& comm) {
  const Rank first = comm.ranks_on_this_host().front();
  std::vector<Rank> firsts;
  for (const std::uint64_t rank : comm.allgather(static_cast<std::uint64_t>(first))) {
    firsts.push_back(static_cast<Rank>(rank));
  }
  return firsts;
}

std::vector<Link> probe_links(Communicator& comm, const ProbeOptions& options) {
  const std::vector<Rank> hosts = first_ranks_on_hosts(comm);
  const std::vector<ProbeRound> rounds = probe_schedule(hosts);
  const auto round_count = static_cast<double>(std::max<std::size_t>(rounds.size(), 1));
  const double seconds = std::min(kLongestPairSeconds, options.budget_seconds / round_count);
  const ProbeWorld world;
  Watchdog watchdog(options.timeout_seconds, comm.rank(), comm.size());
  std::vector<Link> links;
  for (const ProbeRound& round : rounds) {
    const Watchdog::Guard guard(watchdog, "link probe");
    for (const RankPair& pair : round) {
      Link link;
      link.first = pair.first;
      link.second = pair.second;
      link.same_host = hosts[static_cast<std::size_t>(pair.first)] ==
                       hosts[static_cast<std::size_t>(pair.second)];
      if (pair.first == comm.rank() || pair.second == comm.rank()) {
        const bool first = pair.first == comm.rank();
        const Rank peer = first ? pair.second : pair.first;
        if (options.before_pair) options.before_pair(peer);
        const PairSpeed speed = PairProbe(world.get(), comm.rank(), peer).measure(seconds);
        if (options.after_pair) options.after_pair(peer);
        link.forward = first ? speed.sent : speed.received;
        link.backward = first ? speed.received : speed.sent;
      }
      links.push_back(link);
    }
    comm.allgather(std::uint64_t{0});  // the next round starts on all ranks when this one is over
  }
  share(comm, links);
  return links;
}

}  // namespace eqt::comm
