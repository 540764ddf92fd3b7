// SPDX-License-Identifier: Apache-2.0
// Bytes by receiver, and the edges of all ranks.

#include "sync/edge_count.hpp"

#include <algorithm>
#include <cstddef>

#include "core/error.hpp"

namespace eqt::sync {

EdgeCount::EdgeCount(comm::Communicator& comm)
    : comm_(comm), sent_(static_cast<std::size_t>(comm.size())), before_(sent_.size()) {}

void EdgeCount::open() {
  bytes_before_ = comm_.byte_count();
  std::ranges::copy(comm_.transfers().sent_bytes_by_peer(), before_.begin());
}

void EdgeCount::close(Traffic& traffic) {
  count_bytes(bytes_before_, comm_.byte_count(), traffic);
  const auto now = comm_.transfers().sent_bytes_by_peer();
  for (std::size_t to = 0; to < sent_.size(); ++to) sent_[to] += now[to] - before_[to];
}

std::vector<metrics::EdgeRecord> gather_edges(comm::Communicator& comm,
                                              std::span<const std::uint64_t> sent) {
  std::vector<metrics::EdgeRecord> edges;
  if (sent.empty()) return edges;
  const auto ranks = static_cast<std::size_t>(comm.size());
  EQT_CHECK(sent.size() == ranks, "bytes to {} of {} ranks", sent.size(), ranks);
  // Doubles are exact for integers up to 2^53, nine petabytes.
  std::vector<double> table(ranks * ranks);
  std::ranges::copy(sent, table.begin() + comm.rank() * static_cast<std::ptrdiff_t>(ranks));
  comm.allreduce_sum(table);
  for (std::size_t i = 0; i < table.size(); ++i) {
    if (table[i] == 0) continue;
    edges.push_back({.from = static_cast<Rank>(i / ranks),
                     .to = static_cast<Rank>(i % ranks),
                     .bytes = static_cast<std::uint64_t>(table[i])});
  }
  return edges;
}

}  // namespace eqt::sync
