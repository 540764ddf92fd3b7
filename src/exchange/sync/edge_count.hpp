// SPDX-License-Identifier: Apache-2.0
// The bytes that a rank sent: in all, and to each other rank.

#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "comm/communicator.hpp"
#include "core/saved_state.hpp"
#include "core/traffic.hpp"
#include "metrics/records.hpp"

namespace eqt::sync {

/// Adds the bytes and messages between two readings of the counters to `traffic`.
inline void count_bytes(const comm::ByteCount& before, const comm::ByteCount& now,
                        Traffic& traffic) {
  traffic.sent_bytes += now.sent_bytes - before.sent_bytes;
  traffic.received_bytes += now.received_bytes - before.received_bytes;
  traffic.messages += now.messages - before.messages;
}

/// Sums the point-to-point bytes by receiver between open() and close(). Not thread-safe: neither
/// may be called while another thread uses the communicator.
class EdgeCount {
 public:
  explicit EdgeCount(comm::Communicator& comm);
  void open();
  /// Adds the bytes since open() to `traffic`, including those of MPI's collectives, which have no
  /// edges.
  void close(Traffic& traffic);
  /// Returns the bytes sent to each receiver.
  std::span<const std::uint64_t> sent() const { return sent_; }
  /// Another number of ranks counts from 0, because its edges are different.
  void visit_state(StateVisitor& visitor) { visitor.numbers("sent", sent_, Across::fresh); }

 private:
  comm::Communicator& comm_;
  std::vector<std::uint64_t> sent_, before_;
  comm::ByteCount bytes_before_;
};

/// The edges of all ranks with traffic, by sender, then receiver; the same on every rank.
/// Collective.
/// @param sent this rank's bytes by receiver; empty, on all ranks, gives no edges
std::vector<metrics::EdgeRecord> gather_edges(comm::Communicator& comm,
                                              std::span<const std::uint64_t> sent);

}  // namespace eqt::sync
