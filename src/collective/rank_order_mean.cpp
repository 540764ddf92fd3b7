#include "collective/rank_order_mean.hpp"

#include <algorithm>

#include "core/error.hpp"

namespace eqt::collective {

RankOrderMean::RankOrderMean(comm::Communicator& comm) : comm_(comm) {
  outgoing_.reserve(static_cast<std::size_t>(comm.size()));
  incoming_.reserve(static_cast<std::size_t>(comm.size()));
}

void RankOrderMean::operator()(std::span<float> values) {
  if (comm_.size() == 1 || values.empty()) return;
  to_owners(values);
  add_in_rank_order(part_of(comm_.rank(), values));
  from_owners(values);
}

std::span<float> RankOrderMean::part_of(Rank owner, std::span<float> values) const {
  const auto n = static_cast<std::size_t>(comm_.size()), r = static_cast<std::size_t>(owner);
  const std::size_t begin = values.size() * r / n, end = values.size() * (r + 1) / n;
  return values.subspan(begin, end - begin);
}

void RankOrderMean::to_owners(std::span<float> values) {
  const std::size_t mine = part_of(comm_.rank(), values).size();
  received_.resize(std::max(received_.size(), mine * static_cast<std::size_t>(comm_.size())));
  outgoing_.clear();
  incoming_.clear();
  for (Rank peer = 0; peer < comm_.size(); ++peer) {
    if (peer == comm_.rank()) continue;
    const auto theirs = part_of(peer, values);
    if (!theirs.empty()) outgoing_.push_back({peer, std::as_bytes(theirs)});
    const auto room = std::span(received_).subspan(static_cast<std::size_t>(peer) * mine, mine);
    if (mine > 0) incoming_.push_back({peer, std::as_writable_bytes(room), 0});
  }
  exchange("mean of factors: to their owners");
}

void RankOrderMean::add_in_rank_order(std::span<float> mine) {
  const auto own = std::span(received_).subspan(
      static_cast<std::size_t>(comm_.rank()) * mine.size(), mine.size());
  std::copy(mine.begin(), mine.end(), own.begin());
  const auto n = static_cast<std::size_t>(comm_.size());
  const float share = 1.0f / static_cast<float>(comm_.size());
  std::copy_n(received_.begin(), mine.size(), mine.begin());
  for (std::size_t r = 1; r < n; ++r) {
    const float* const from = received_.data() + r * mine.size();
    for (std::size_t i = 0; i < mine.size(); ++i) mine[i] += from[i];
  }
  for (float& value : mine) value *= share;
}

void RankOrderMean::from_owners(std::span<float> values) {
  const auto mine = part_of(comm_.rank(), values);
  outgoing_.clear();
  incoming_.clear();
  for (Rank peer = 0; peer < comm_.size(); ++peer) {
    if (peer == comm_.rank()) continue;
    if (!mine.empty()) outgoing_.push_back({peer, std::as_bytes(mine)});
    const auto theirs = part_of(peer, values);
    if (!theirs.empty()) incoming_.push_back({peer, std::as_writable_bytes(theirs), 0});
  }
  exchange("mean of factors: to everyone");
}

void RankOrderMean::exchange(const char* operation) {
  comm_.exchange(outgoing_, incoming_, operation);
  for (const comm::Incoming& in : incoming_) {
    if (in.bytes == in.room.size()) continue;
    fail(Kind::wire,
         "{}: expected {} bytes from rank {}, found {}; the ranks run different configs or builds",
         operation, in.room.size(), in.from, in.bytes);
  }
}

}  // namespace eqt::collective
