// SPDX-License-Identifier: Apache-2.0
#include "collective/host_mean.hpp"

#include <algorithm>
#include <vector>

#include "collective/mean_kernel.hpp"
#include "collective/rank_order_mean.hpp"

namespace eqt::collective {
namespace {

using comm::HostMemory;

std::size_t place_of(const HostMemory& memory, Rank me, std::span<const float> values) {
  return static_cast<std::size_t>(values.data() - memory.array(me).data());
}

/// A part of every rank's array becomes its mean.
void average(const HostMemory& memory, int ranks, std::size_t begin, std::size_t count) {
  // So few that the means are still in the first-level cache when they are written once more.
  constexpr std::size_t kAtOnce = 2048;
  thread_local std::vector<const float*> rows;
  for (std::size_t done = 0; done < count; done += kAtOnce) {
    const std::size_t at = begin + done, n = std::min(kAtOnce, count - done);
    rows.clear();
    for (Rank rank = 0; rank < ranks; ++rank) rows.push_back(memory.array(rank).data() + at);
    const auto mean = memory.array(0).subspan(at, n);
    mean_of_rows(rows, 1.0f / static_cast<float>(ranks), mean, n);
    for (Rank rank = 1; rank < ranks; ++rank)
      std::ranges::copy(mean, memory.array(rank).begin() + static_cast<std::ptrdiff_t>(at));
  }
}

/// Counts what RankOrderMean sends and receives.
void count(comm::Communicator& comm, std::span<float> values) {
  const auto bytes_of = [&](Rank owner) {
    return owned_part(owner, comm.size(), values).size_bytes();
  };
  const std::size_t mine = bytes_of(comm.rank());
  for (Rank peer = 0; peer < comm.size(); ++peer) {
    if (peer == comm.rank()) continue;
    if (comm.size() == 2) {
      comm.transfers().count_on_host(peer, values.size_bytes(), values.size_bytes());
    } else {
      const std::size_t theirs = bytes_of(peer);
      comm.transfers().count_on_host(peer, theirs, mine);
      comm.transfers().count_on_host(peer, mine, theirs);
    }
  }
}

}  // namespace

bool in_host_memory(comm::Communicator& comm, std::span<const float> values) {
  const HostMemory* const memory = comm.host_memory();
  if (memory == nullptr) return false;
  const auto own = memory->array(comm.rank());
  return values.data() >= own.data() && values.data() + values.size() <= own.data() + own.size();
}

Task mean_in_host_memory(comm::Communicator& comm, std::span<float> values) {
  if (values.empty()) co_return;
  HostMemory& memory = *comm.host_memory();
  const std::uint64_t done = memory.steps(comm.rank());
  count(comm, values);
  memory.advance();
  co_await comm.transfers().others_did(memory, done + 1, "dense: values of the other ranks");
  const auto mine = owned_part(comm.rank(), comm.size(), values);
  average(memory, comm.size(), place_of(memory, comm.rank(), mine), mine.size());
  memory.advance();
  co_await comm.transfers().others_did(memory, done + 2, "dense: means of the other ranks");
}

}  // namespace eqt::collective
