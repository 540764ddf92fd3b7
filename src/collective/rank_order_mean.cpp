#include "collective/rank_order_mean.hpp"

#include <algorithm>
#include <array>

#include "collective/messages.hpp"

namespace eqt::collective {
namespace {

std::span<float> part_of(Rank owner, Rank ranks, std::span<float> values) {
  const auto n = static_cast<std::size_t>(ranks), r = static_cast<std::size_t>(owner);
  const std::size_t begin = values.size() * r / n, end = values.size() * (r + 1) / n;
  return values.subspan(begin, end - begin);
}

}  // namespace

Task RankOrderMean::operator()(comm::Communicator& comm, std::span<float> values, comm::Route route,
                               Operations operations) {
  if (comm.size() == 1 || values.empty()) co_return;
  if (comm.size() == 2) {
    to_peer(comm, values);
  } else {
    to_owners(comm, values);
  }
  co_await comm.transfers().exchange(outgoing_, incoming_, route, operations.to_owners);
  check_lengths(operations.to_owners);
  if (comm.size() == 2) {
    add_in_rank_order(comm.rank(), 2, values);
    co_return;
  }
  add_in_rank_order(comm.rank(), comm.size(), part_of(comm.rank(), comm.size(), values));
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
  const std::size_t mine = part_of(comm.rank(), comm.size(), values).size();
  const auto others = static_cast<std::size_t>(comm.size() - 1);
  received_.resize(std::max(received_.size(), mine * others));
  outgoing_.clear();
  incoming_.clear();
  for (Rank peer = 0; peer < comm.size(); ++peer) {
    if (peer == comm.rank()) continue;
    const auto theirs = part_of(peer, comm.size(), values);
    if (!theirs.empty()) outgoing_.push_back({peer, std::as_bytes(theirs)});
    if (mine == 0) continue;
    const auto room = std::span(received_).subspan(incoming_.size() * mine, mine);
    incoming_.push_back({peer, std::as_writable_bytes(room), 0});
  }
}

void RankOrderMean::add_in_rank_order(Rank me, Rank ranks, std::span<float> mine) const {
  const float share = 1.0f / static_cast<float>(ranks);
  const std::size_t before = static_cast<std::size_t>(me), count = mine.size();
  // A few values at a time, so that partial sums stay in the cache.
  constexpr std::size_t kAtOnce = 4096;
  std::array<float, kAtOnce> sum;
  for (std::size_t start = 0; start < count; start += kAtOnce) {
    const std::size_t n = std::min(kAtOnce, count - start);
    for (std::size_t r = 0; r < static_cast<std::size_t>(ranks); ++r) {
      const float* const from = r == before  ? mine.data() + start
                                : r < before ? received_.data() + r * count + start
                                             : received_.data() + (r - 1) * count + start;
      if (r == 0) {
        std::copy_n(from, n, sum.begin());
      } else {
        for (std::size_t i = 0; i < n; ++i) sum[i] += from[i];
      }
    }
    for (std::size_t i = 0; i < n; ++i) mine[start + i] = sum[i] * share;
  }
}

void RankOrderMean::from_owners(comm::Communicator& comm, std::span<float> values) {
  const auto mine = part_of(comm.rank(), comm.size(), values);
  outgoing_.clear();
  incoming_.clear();
  for (Rank peer = 0; peer < comm.size(); ++peer) {
    if (peer == comm.rank()) continue;
    if (!mine.empty()) outgoing_.push_back({peer, std::as_bytes(mine)});
    const auto theirs = part_of(peer, comm.size(), values);
    if (!theirs.empty()) incoming_.push_back({peer, std::as_writable_bytes(theirs), 0});
  }
}

void RankOrderMean::check_lengths(const char* operation) const {
  for (const comm::Incoming& in : incoming_) require_bytes(in, in.room.size(), operation);
}

}  // namespace eqt::collective
