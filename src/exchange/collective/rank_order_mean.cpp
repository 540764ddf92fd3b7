// SPDX-License-Identifier: Apache-2.0
#include "collective/rank_order_mean.hpp"

#include <algorithm>
#include <vector>

#include "collective/mean_kernel.hpp"
#include "collective/messages.hpp"

namespace eqt::collective {

std::span<float> owned_part(Rank owner, Rank ranks, std::span<float> values) {
  const auto n = static_cast<std::size_t>(ranks), r = static_cast<std::size_t>(owner);
  const std::size_t begin = values.size() * r / n, end = values.size() * (r + 1) / n;
  return values.subspan(begin, end - begin);
}

Task RankOrderMean::operator()(comm::Communicator& comm, std::span<float> values, comm::Route route,
                               Operations operations, std::size_t all) {
  all = std::max(all, values.size());
  if (comm.size() == 1 || values.empty()) co_return;
  if (comm.size() == 2) {
    to_peer(comm, values);
  } else {
    to_owners(comm, values);
  }
  co_await comm.transfers().exchange(outgoing_, incoming_, route, operations.to_owners);
  check_lengths(operations.to_owners);
  if (comm.size() == 2) {
    add_in_rank_order(comm.rank(), 2, values, all);
    co_return;
  }
  add_in_rank_order(comm.rank(), comm.size(), owned_part(comm.rank(), comm.size(), values), all);
  from_owners(comm, values);
  co_await comm.transfers().exchange(outgoing_, incoming_, route, operations.to_everyone);
  check_lengths(operations.to_everyone);
}

void RankOrderMean::to_peer(comm::Communicator& comm, std::span<float> values) {
  received_.resize(std::max(received_.size(), values.size()));
  const Rank peer = 1 - comm.rank();
  outgoing_.assign(1, {peer, std::as_bytes(values)});
  incoming_.assign(1, {peer, std::as_writable_bytes(std::span(received_).first(values.size())), 0});
}

void RankOrderMean::to_owners(comm::Communicator& comm, std::span<float> values) {
  const std::size_t mine = owned_part(comm.rank(), comm.size(), values).size();
  const auto others = static_cast<std::size_t>(comm.size() - 1);
  received_.resize(std::max(received_.size(), mine * others));
  outgoing_.clear();
  incoming_.clear();
  for (Rank peer = 0; peer < comm.size(); ++peer) {
    if (peer == comm.rank()) continue;
    const auto theirs = owned_part(peer, comm.size(), values);
    if (!theirs.empty()) outgoing_.push_back({peer, std::as_bytes(theirs)});
    if (mine == 0) continue;
    const auto buffer = std::span(received_).subspan(incoming_.size() * mine, mine);
    incoming_.push_back({peer, std::as_writable_bytes(buffer), 0});
  }
}

void RankOrderMean::add_in_rank_order(Rank me, Rank ranks, std::span<float> mine, std::size_t all) {
  rows_.clear();
  std::size_t others = 0;
  for (Rank r = 0; r < ranks; ++r) {
    rows_.push_back(r == me ? mine.data() : received_.data() + others++ * mine.size());
  }
  mean_of_rows(rows_, 1.0f / static_cast<float>(ranks), mine, all);
}

void RankOrderMean::from_owners(comm::Communicator& comm, std::span<float> values) {
  const auto mine = owned_part(comm.rank(), comm.size(), values);
  outgoing_.clear();
  incoming_.clear();
  for (Rank peer = 0; peer < comm.size(); ++peer) {
    if (peer == comm.rank()) continue;
    if (!mine.empty()) outgoing_.push_back({peer, std::as_bytes(mine)});
    const auto theirs = owned_part(peer, comm.size(), values);
    if (!theirs.empty()) incoming_.push_back({peer, std::as_writable_bytes(theirs), 0});
  }
}

void RankOrderMean::check_lengths(const char* operation) const {
  for (const comm::Incoming& in : incoming_) require_bytes(in, in.buffer.size(), operation);
}

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
