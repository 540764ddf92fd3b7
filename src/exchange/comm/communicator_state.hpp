// SPDX-License-Identifier: Apache-2.0
// What a communicator consists of. Private to the room.

#pragma once

#include <mpi.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "comm/communicator.hpp"
#include "comm/local_peers.hpp"
#include "comm/mpi_call.hpp"
#include "comm/watchdog.hpp"

namespace eqt::comm {

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

}  // namespace eqt::comm
