// SPDX-License-Identifier: Apache-2.0
#include "comm/communicator.hpp"

#include <mpi.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "comm/host_facts.hpp"
#include "comm/mpi_call.hpp"
#include "comm/signals.hpp"
#include "comm/watchdog.hpp"
#include "core/checksum.hpp"

namespace eqt::comm {
namespace {

// Above its eager limit (64 KiB with headers) Open MPI asks the receiver before it sends. The
// question and its answer wait behind the bulk data of both directions, which halves the speed of a
// slow link. Eager fragments keep it full.
constexpr FragmentRule kFragments = {.fragment_bytes = 60 * 1024, .in_flight = 4};
// Within a host a fragment is one copy by the kernel, whose call should be small beside it, and
// still be in the second-level cache for its checksum.
constexpr FragmentRule kFragmentsOnHost = {.fragment_bytes = std::size_t{512} << 10,
                                           .in_flight = 4};

constexpr std::size_t kMaxBroadcastBytes = std::size_t{256} << 20;

}  // namespace

struct Communicator::State {
  MPI_Comm comm = MPI_COMM_NULL;
  int rank = 0;
  int size = 1;
  std::vector<int> host_ranks;  // ranks of this host, ascending
  std::vector<int> hosts;       // the host's number, by rank
  std::unique_ptr<Watchdog> watchdog;
  std::unique_ptr<Transfers> transfers;
  std::atomic<bool> cancelled{false};
  MPI_Comm notes = MPI_COMM_NULL;       // for messages that say that the run is to stop
  std::atomic<bool> stop_known{false};  // this rank knows, and has sent it to all others
  MPI_Request maximum = MPI_REQUEST_NULL;
  std::vector<LocalPeer> local_peers;
  std::unique_ptr<HostMemory> host_memory;

  /// The lowest rank that shares memory with this one.
  std::uint64_t lowest_on_host() const {
    const Watchdog::Guard guard(*watchdog, "MPI_Comm_split_type");
    MPI_Comm host = MPI_COMM_NULL;
    check(MPI_Comm_split_type(comm, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &host),
          "MPI_Comm_split_type");
    check(MPI_Comm_set_errhandler(host, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
    int lowest = rank;
    check(MPI_Bcast(&lowest, 1, MPI_INT, 0, host), "MPI_Bcast");
    check(MPI_Comm_free(&host), "MPI_Comm_free");
    return static_cast<std::uint64_t>(lowest);
  }

  /// Numbers the hosts and lists the ranks on this host.
  /// @param marks one per rank: equal where ranks share a host
  template <typename Mark>
  void number_hosts(std::span<const Mark> marks) {
    int next = 0;
    hosts.clear();
    for (std::size_t r = 0; r < marks.size(); ++r) {
      const auto first = std::find(marks.begin(), marks.end(), marks[r]) - marks.begin();
      const bool is_new = first == static_cast<std::ptrdiff_t>(r);
      hosts.push_back(is_new ? next++ : hosts[static_cast<std::size_t>(first)]);
    }
    host_ranks.clear();
    for (int r = 0; r < size; ++r) {
      if (hosts[static_cast<std::size_t>(r)] == hosts[static_cast<std::size_t>(rank)]) {
        host_ranks.push_back(r);
      }
    }
  }

  void wait(MPI_Request& request, const char* operation) {
    const Watchdog::Guard guard(*watchdog, operation);
    PollBackoff backoff;
    for (int done = 0;;) {
      check(MPI_Test(&request, &done, MPI_STATUS_IGNORE), operation);
      if (done != 0) return;
      if (cancelled.load(std::memory_order_relaxed)) {
        fail(Kind::mpi, "{} was given up because of another error", operation);
      }
      backoff.pause(host_ranks.size() == static_cast<std::size_t>(size));
    }
  }

  void broadcast(void* bytes, std::size_t count, Rank root, const char* operation) {
    MPI_Request request = MPI_REQUEST_NULL;
    check(MPI_Ibcast(bytes, checked_int(count), MPI_BYTE, root, comm, &request), operation);
    wait(request, operation);
  }

  void tell_stop() {
    static const char kNote = 0;
    for (int peer = 0; peer < size; ++peer) {
      if (peer == rank) continue;
      MPI_Request request = MPI_REQUEST_NULL;
      check(MPI_Isend(&kNote, 1, MPI_CHAR, peer, kFirstChannelTag, notes, &request),
            "a note to stop");
      check(MPI_Request_free(&request), "a note to stop");
      transfers->count_note(sizeof kNote, 0);
    }
  }

  bool hear_stop() {
    int there = 0;
    MPI_Status status{};
    check(MPI_Iprobe(MPI_ANY_SOURCE, kFirstChannelTag, notes, &there, &status), "a note to stop");
    if (there == 0) return false;
    char note = 0;
    check(
        MPI_Recv(&note, 1, MPI_CHAR, status.MPI_SOURCE, kFirstChannelTag, notes, MPI_STATUS_IGNORE),
        "a note to stop");
    transfers->count_note(0, sizeof note);
    return true;
  }

  /// A ring allreduce of `bytes` sends 2 (n-1)/n of them per rank. A reduction to one rank followed
  /// by a broadcast of the result sends as much, added up over ranks.
  void count_ring(std::size_t bytes) {
    const auto n = static_cast<std::uint64_t>(size);
    const std::uint64_t moved = 2 * bytes * (n - 1) / n;
    transfers->count(moved, moved, 2 * (n - 1));
  }

  /// Every rank except the root receives the bytes once, whichever rank sends them.
  void count_broadcast(std::size_t bytes, bool is_root) {
    const auto others = static_cast<std::uint64_t>(size - 1);
    transfers->count(is_root ? others * bytes : 0, is_root ? 0 : bytes, is_root ? others : 0);
  }

  void allreduce(void* values, std::size_t n, MPI_Datatype type, std::size_t value_bytes, MPI_Op op,
                 const char* operation) {
    if (size == 1 || n == 0) return;
    MPI_Request request = MPI_REQUEST_NULL;
    check(MPI_Iallreduce(MPI_IN_PLACE, values, checked_int(n), type, op, comm, &request),
          operation);
    count_ring(n * value_bytes);
    wait(request, operation);
  }
};

Communicator::Communicator(const Session& session, double timeout_seconds,
                           std::span<const int> pretended_hosts)
    : state_(std::make_unique<State>()) {
  State& s = *state_;
  s.rank = session.rank();
  s.size = session.size();
  s.watchdog = std::make_unique<Watchdog>(timeout_seconds, s.rank, s.size);
  for (MPI_Comm* comm : {&s.comm, &s.notes}) {
    const Watchdog::Guard guard(*s.watchdog, "MPI_Comm_dup");
    check(MPI_Comm_dup(MPI_COMM_WORLD, comm), "MPI_Comm_dup");
    // The default handler ends the process, so check() would never see an error code.
    check(MPI_Comm_set_errhandler(*comm, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  }
  set_timeout(timeout_seconds);
  if (pretended_hosts.empty()) {
    s.number_hosts<std::uint64_t>(allgather(s.lowest_on_host()));
  } else {
    EQT_CHECK(pretended_hosts.size() == static_cast<std::size_t>(s.size), "{} hosts for {} ranks",
              pretended_hosts.size(), s.size);
    s.number_hosts(pretended_hosts);
  }
  s.local_peers =
      visible_peers(allgather(static_cast<std::uint64_t>(getpid())), s.host_ranks, s.rank);
  set_timeout(timeout_seconds);
  for (Rank peer = 0; peer < s.size; ++peer) {
    const bool on_host = shares_host(peer);
    s.transfers->set_fragment_rule(peer, on_host ? kFragmentsOnHost : kFragments, on_host);
  }
}

Communicator::~Communicator() {
  state_->transfers.reset();
  // Freeing is collective: if an error unwinds on one rank, the others will not take part.
  if (std::uncaught_exceptions() > 0) return;
  const Watchdog::Guard guard(*state_->watchdog, "MPI_Comm_free");
  check_quietly(MPI_Comm_free(&state_->notes), "MPI_Comm_free");
  check_quietly(MPI_Comm_free(&state_->comm), "MPI_Comm_free");
}

Rank Communicator::rank() const noexcept { return state_->rank; }
int Communicator::size() const noexcept { return state_->size; }
std::span<const Rank> Communicator::ranks_on_this_host() const noexcept {
  return state_->host_ranks;
}
bool Communicator::shares_host(Rank peer) const noexcept {
  return std::binary_search(state_->host_ranks.begin(), state_->host_ranks.end(), peer);
}
int Communicator::host_of(Rank rank) const noexcept {
  return state_->hosts[static_cast<std::size_t>(rank)];
}
int Communicator::host_count() const noexcept {
  return *std::max_element(state_->hosts.begin(), state_->hosts.end()) + 1;
}
ByteCount Communicator::byte_count() const noexcept { return state_->transfers->byte_count(); }
Transfers& Communicator::transfers() noexcept { return *state_->transfers; }

void Communicator::share_memory(FlatBuffer* own) {
  State& s = *state_;
  s.host_memory.reset();
  if (s.size == 1 || host_count() > 1) return;
  const bool wanted = own != nullptr && !s.transfers->changes_messages();
  auto memory = wanted ? HostMemory::of(*own, s.rank, s.size) : nullptr;
  const auto by_all = [&](bool mine) {
    return std::ranges::all_of(allgather(std::uint64_t{mine}),
                               [](std::uint64_t theirs) { return theirs == 1; });
  };
  if (!by_all(memory != nullptr)) return;
  std::array<std::vector<std::uint64_t>, 3> addresses;
  for (std::size_t part = 0; part < addresses.size(); ++part)
    addresses[part] = allgather(memory->address()[part]);
  bool found = true;
  for (Rank rank = 0; rank < s.size; ++rank) {
    const auto of = static_cast<std::size_t>(rank);
    if (rank != s.rank)
      found = memory->find(rank, {addresses[0][of], addresses[1][of], addresses[2][of]}) && found;
  }
  const bool everywhere = by_all(found);
  memory->close_file();
  if (everywhere) s.host_memory = std::move(memory);
}

HostMemory* Communicator::host_memory() noexcept { return state_->host_memory.get(); }

void Communicator::set_step(StepId step) noexcept { state_->watchdog->set_step(step); }

void Communicator::cancel() noexcept {
  state_->cancelled.store(true);
  state_->transfers->cancel();
}

void Communicator::set_timeout(double seconds) {
  State& s = *state_;
  auto watchdog = std::make_unique<Watchdog>(seconds, s.rank, s.size);
  watchdog->set_inquiry([peers = s.local_peers] { return describe_troubled(peers); });
  if (s.transfers == nullptr) {
    s.transfers = std::make_unique<Transfers>(&s.comm, *watchdog, s.rank, s.size);
  } else {
    s.transfers->set_watchdog(*watchdog);
  }
  s.watchdog = std::move(watchdog);
}

void Communicator::set_send_hook(SendHook* hook) noexcept {
  state_->transfers->set_send_hook(hook);
}

void Communicator::heartbeat(const char* activity, bool waits_too) noexcept {
  state_->watchdog->heartbeat(activity, waits_too);
}
void Communicator::end_heartbeat() noexcept { state_->watchdog->end_heartbeat(); }

bool Communicator::stop_asked() {
  State& s = *state_;
  if (s.stop_known) return true;
  const bool own = knows_of_stop();
  if (own) s.tell_stop();
  s.stop_known = own || (s.size > 1 && s.hear_stop());
  return s.stop_known;
}

bool Communicator::knows_of_stop() const noexcept {
  if (state_->stop_known) return true;
  return first_signal() && meaning_of_signals() == OnSignal::finish_step;
}

void Communicator::exchange(std::span<const Outgoing> outgoing, std::span<Incoming> incoming,
                            const char* operation) {
  Exchange exchange{outgoing, incoming, {}, operation};
  state_->transfers->start(exchange);
  state_->transfers->wait(exchange);
}

void Communicator::broadcast(std::span<std::byte> bytes, Rank root) {
  if (size() == 1) return;
  State& s = *state_;
  constexpr const char* kOperation = "broadcast";
  // MPI counts in int.
  for (; !bytes.empty(); bytes = bytes.subspan(std::min(bytes.size(), kMaxBroadcastBytes))) {
    const auto fragment = bytes.first(std::min(bytes.size(), kMaxBroadcastBytes));
    const bool sends = rank() == root;
    std::optional<std::vector<std::byte>> other;
    if (sends) other = s.transfers->replacement_for_mpi(fragment);
    std::uint64_t expected = sends ? checksum(fragment) : 0;
    s.broadcast(other ? other->data() : fragment.data(), fragment.size(), root, kOperation);
    s.broadcast(&expected, sizeof expected, root, kOperation);
    s.count_broadcast(fragment.size() + sizeof expected, sends);
    require_undamaged({s.watchdog->step(), kOperation, root}, fragment.size(), expected,
                      checksum(fragment));
  }
}

std::string Communicator::broadcast(const std::string& text, Rank root) {
  std::uint64_t length = text.size();
  broadcast(std::as_writable_bytes(std::span(&length, 1)), root);
  if (length > kMaxTextBytes) {
    fail(Kind::wire, "broadcast of a text: expected at most {} bytes from rank {}, found {}",
         kMaxTextBytes, root, length);
  }
  std::string result = rank() == root ? text : std::string(length, '\0');
  broadcast(std::as_writable_bytes(std::span(result.data(), result.size())), root);
  return result;
}

void Communicator::allreduce_sum(std::span<float> values) {
  State& s = *state_;
  if (s.size == 1 || values.empty()) return;
  constexpr const char* kOperation = "dense allreduce";
  s.count_ring(values.size_bytes());
  // MPI_Iallreduce takes twice the time between two ranks, and more among others: Open MPI reduces
  // to one rank, then broadcasts, and makes progress only when it is called.
  const Watchdog::Guard guard(*s.watchdog, kOperation);
  check(MPI_Allreduce(MPI_IN_PLACE, values.data(), checked_int(values.size()), MPI_FLOAT, MPI_SUM,
                      s.comm),
        kOperation);
}

void Communicator::allreduce_sum(std::span<double> values) {
  state_->allreduce(values.data(), values.size(), MPI_DOUBLE, sizeof(double), MPI_SUM,
                    "allreduce of sums");
}

void Communicator::allreduce_max(std::span<float> values) {
  state_->allreduce(values.data(), values.size(), MPI_FLOAT, sizeof(float), MPI_MAX,
                    "allreduce of scales");
}

void Communicator::allreduce_max(std::span<double> values) {
  state_->allreduce(values.data(), values.size(), MPI_DOUBLE, sizeof(double), MPI_MAX,
                    "allreduce of maxima");
}

void Communicator::start_max(std::span<double> values) {
  State& s = *state_;
  EQT_CHECK(s.maximum == MPI_REQUEST_NULL, "a second maximum of {} values", values.size());
  if (s.size == 1) return;
  check(MPI_Iallreduce(MPI_IN_PLACE, values.data(), checked_int(values.size()), MPI_DOUBLE, MPI_MAX,
                       s.comm, &s.maximum),
        "agreement of ranks");
  s.count_ring(values.size_bytes());
}

void Communicator::finish_max() {
  if (state_->maximum != MPI_REQUEST_NULL) state_->wait(state_->maximum, "agreement of ranks");
}

void Communicator::blocking_barrier() {
  State& s = *state_;
  constexpr const char* kOperation = "MPI_Barrier of a benchmark";
  const Watchdog::Guard guard(*s.watchdog, kOperation);
  check(MPI_Barrier(s.comm), kOperation);
}

std::vector<std::uint64_t> Communicator::allgather(std::uint64_t value) {
  State& s = *state_;
  std::vector<std::uint64_t> values(static_cast<std::size_t>(s.size), value);
  if (s.size == 1) return values;
  constexpr const char* kOperation = "allgather";
  struct Checked {
    std::uint64_t value, checksum;
  };
  const auto checksum_of = [](const std::uint64_t& of, std::size_t sender) {
    return checksum(std::as_bytes(std::span(&of, 1)), sender);
  };
  Checked mine{value, checksum_of(value, static_cast<std::size_t>(s.rank))};
  const auto other = s.transfers->replacement_for_mpi(std::as_bytes(std::span(&value, 1)));
  if (other) std::memcpy(&mine.value, other->data(), sizeof mine.value);
  std::vector<Checked> all(values.size());
  MPI_Request request = MPI_REQUEST_NULL;
  check(MPI_Iallgather(&mine, sizeof mine, MPI_BYTE, all.data(), sizeof mine, MPI_BYTE, s.comm,
                       &request),
        kOperation);
  const std::uint64_t moved = (all.size() - 1) * sizeof mine;
  s.transfers->count(moved, moved, all.size() - 1);
  s.wait(request, kOperation);
  for (std::size_t r = 0; r < all.size(); ++r) {
    require_undamaged({s.watchdog->step(), kOperation, static_cast<Rank>(r)}, sizeof value,
                      all[r].checksum, checksum_of(all[r].value, r));
    values[r] = all[r].value;
  }
  return values;
}

std::vector<std::string> Communicator::allgather(const std::string& text) {
  std::vector<std::string> texts;
  for (Rank r = 0; r < size(); ++r) texts.push_back(broadcast(text, r));
  return texts;
}

void Communicator::agree(const std::optional<Error>& local) {
  const auto codes =
      allgather(local ? static_cast<std::uint64_t>(local->exit_code()) : std::uint64_t{0});
  const auto failed = std::find_if(codes.begin(), codes.end(), [](auto code) { return code != 0; });
  if (failed == codes.end()) return;
  const auto first = static_cast<Rank>(failed - codes.begin());
  const std::string sentence = broadcast(local ? local->what() : std::string(), first);
  const bool everywhere =
      std::all_of(codes.begin(), codes.end(), [](auto code) { return code != 0; });
  throw AgreedError(static_cast<Kind>(*failed),
                    everywhere ? sentence : fmt::format("rank {}: {}", first, sentence));
}

void Communicator::require_same(std::uint64_t value, std::string_view what) {
  const auto values = allgather(value);
  for (std::size_t r = 0; r < values.size(); ++r) {
    if (values[r] != values[0]) {
      fail(Kind::bug, "expected the same {} on all ranks, found {:x} on rank 0 and {:x} on rank {}",
           what, values[0], values[r], r);
    }
  }
}

}  // namespace eqt::comm
