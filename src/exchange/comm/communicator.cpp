// SPDX-License-Identifier: Apache-2.0
#include "comm/communicator.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <utility>

#include "comm/communicator_state.hpp"
#include "comm/signals.hpp"

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

}  // namespace

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

}  // namespace eqt::comm
