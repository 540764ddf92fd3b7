// SPDX-License-Identifier: Apache-2.0
#include "setup/room_to_start.hpp"

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

#include "comm/host_facts.hpp"
#include "core/address_space.hpp"
#include "core/error.hpp"
#include "core/units.hpp"

namespace eqt::setup {
namespace {

// The address space of MPI, the heap and a few threads of a rank that trains a small network,
// measured on x86-64 with 2 cores.
constexpr std::size_t kStartBytes = 640 * kMib;
constexpr int kOwnThreads = 4;  // MPI's, the watchdog's, the communication thread, the writer

// More threads than cores only wait for each other, far more of them for minutes in each step.
constexpr int kManyThreads = 16, kThreadsPerCore = 4;

/// Returns as many of `wanted` threads as the system grants at once, besides those that run
/// already.
int granted_threads(int wanted) {
  std::mutex mutex;
  std::condition_variable changed;
  bool all_started = false;
  std::vector<std::thread> threads;
  try {
    while (static_cast<int>(threads.size()) < wanted) {
      threads.emplace_back([&] {
        std::unique_lock lock(mutex);
        changed.wait(lock, [&] { return all_started; });
      });
    }
  } catch (const std::system_error&) {
    // The system grants as many as there are.
  }
  {
    const std::lock_guard lock(mutex);
    all_started = true;
  }
  changed.notify_all();
  for (std::thread& thread : threads) thread.join();
  return static_cast<int>(threads.size());
}

void require_granted(int wanted) {
  const int granted = granted_threads(wanted);
  if (granted >= wanted) return;
  fail(Kind::usage,
       "host {}: expected the system to grant a rank {} threads, found {}; raise its limits of "
       "processes, addresses or the control group (ulimit -u, ulimit -v, pids.max), or lower "
       "threads_per_rank",
       comm::host_name(), wanted, granted);
}

void require_granted_addresses(std::uint64_t bytes) {
  if (has_addresses(bytes)) return;
  fail(Kind::usage,
       "host {}: expected room for {} MiB more in a rank's addresses, found less; raise the limit "
       "(ulimit -v, ulimit -d), or try a smaller train.batch_size or model.name",
       comm::host_name(), bytes / kMib);
}

}  // namespace

void require_room_to_start() {
  require_granted_addresses(kStartBytes);
  require_granted(kOwnThreads);
}

void require_threads(int computing, int loading, comm::Communicator& comm) {
  comm.agree_after([&] {
    const int cores = comm::online_cores();
    const int most = std::max(kManyThreads, kThreadsPerCore * cores);
    if (computing > most) {
      fail(Kind::usage,
           "threads_per_rank: expected at most {} on host {} with {} cores, found {}; 0 takes as "
           "many as there are cores for each rank",
           most, comm::host_name(), cores, computing);
    }
    require_granted(computing + loading + kOwnThreads);
  });
}

void require_addresses(std::uint64_t bytes, comm::Communicator& comm) {
  comm.agree_after([&] { require_granted_addresses(bytes); });
}

}  // namespace eqt::setup
