// SPDX-License-Identifier: Apache-2.0
#include "collective/host_mean.hpp"

#include <algorithm>

#include "collective/mean_kernel.hpp"
#include "collective/rank_order_mean.hpp"

namespace eqt::collective {
namespace {

using comm::HostMemory;

std::span<float> floats_in(const HostMemory& memory, Rank of, std::uint64_t turn) {
  const auto bytes = memory.buffer(of, turn);
  return {reinterpret_cast<float*>(bytes.data()), bytes.size() / sizeof(float)};
}

/// @param begin of `values` in the buffer
void write(const HostMemory& memory, Rank me, std::uint64_t turn, std::size_t begin,
           std::span<const float> values) {
  std::ranges::copy(values, floats_in(memory, me, turn).subspan(begin).begin());
}

void write_for_owners(const comm::Communicator& comm, const HostMemory& memory, std::uint64_t turn,
                      std::span<float> values) {
  const auto mine = owned_part(comm.rank(), comm.size(), values);
  const auto before = static_cast<std::size_t>(mine.data() - values.data());
  const std::size_t after = before + mine.size();
  write(memory, comm.rank(), turn, 0, values.first(before));
  write(memory, comm.rank(), turn, after, values.subspan(after));
}

void read_from_owners(const comm::Communicator& comm, const HostMemory& memory, std::uint64_t turn,
                      std::span<float> values) {
  for (Rank owner = 0; owner < comm.size(); ++owner) {
    if (owner == comm.rank()) continue;
    const auto part = owned_part(owner, comm.size(), values);
    const auto begin = static_cast<std::size_t>(part.data() - values.data());
    std::ranges::copy(floats_in(memory, owner, turn).subspan(begin, part.size()), part.begin());
  }
}

/// As many as RankOrderMean sends and receives.
void count(comm::Communicator& comm, std::span<float> values) {
  const auto bytes_of = [&](Rank owner) {
    return owned_part(owner, comm.size(), values).size_bytes();
  };
  for (Rank peer = 0; peer < comm.size(); ++peer) {
    if (peer == comm.rank()) continue;
    const std::size_t bytes =
        comm.size() == 2 ? values.size_bytes() : bytes_of(peer) + bytes_of(comm.rank());
    comm.transfers().count_on_host(peer, bytes, bytes);
  }
}

}  // namespace

Task HostMean::operator()(comm::Communicator& comm, std::span<float> values) {
  constexpr const char* kWrite = "dense: the other ranks read values of two turns ago";
  constexpr const char* kValues = "dense: the other ranks write values";
  constexpr const char* kMeans = "dense: the other ranks write means";
  constexpr std::size_t kMost = HostMemory::kBufferBytes / sizeof(float);
  if (comm.size() == 1 || values.empty()) co_return;
  HostMemory& memory = *comm.host_memory();
  const bool pair = comm.size() == 2;
  const std::uint64_t steps_of_turn = pair ? 2 : 3;
  count(comm, values);
  for (; !values.empty(); values = values.subspan(std::min(kMost, values.size()))) {
    const auto part = values.first(std::min(kMost, values.size()));
    const std::uint64_t done = memory.steps(comm.rank()), turn = done / steps_of_turn;
    const std::uint64_t read_by_all = turn < 2 ? 0 : (turn - 1) * steps_of_turn;
    co_await comm.transfers().others_did(memory, read_by_all, kWrite);
    if (pair) {
      write(memory, comm.rank(), turn, 0, part);
    } else {
      write_for_owners(comm, memory, turn, part);
    }
    memory.advance();
    co_await comm.transfers().others_did(memory, done + 1, kValues);
    if (pair) {
      add(comm, memory, turn, 0, part);
    } else {
      const auto mine = owned_part(comm.rank(), comm.size(), part);
      const auto begin = static_cast<std::size_t>(mine.data() - part.data());
      add(comm, memory, turn, begin, mine);
      write(memory, comm.rank(), turn, begin, mine);
      memory.advance();
      co_await comm.transfers().others_did(memory, done + 2, kMeans);
      read_from_owners(comm, memory, turn, part);
    }
    memory.advance();
  }
}

/// @param mean in: this rank's values
/// @param begin of `mean` in the buffers
void HostMean::add(const comm::Communicator& comm, const HostMemory& memory, std::uint64_t turn,
                   std::size_t begin, std::span<float> mean) {
  rows_.clear();
  for (Rank rank = 0; rank < comm.size(); ++rank)
    rows_.push_back(rank == comm.rank() ? mean.data()
                                        : floats_in(memory, rank, turn).data() + begin);
  // What was just written and read is in the caches, whatever else the step averages.
  mean_of_rows(rows_, 1.0f / static_cast<float>(comm.size()), mean, mean.size());
}

}  // namespace eqt::collective
