// SPDX-License-Identifier: Apache-2.0
// The bytes that each rank sent to each other.

#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "comm/communicator.hpp"
#include "core/saved_state.hpp"
#include "core/traffic.hpp"
#include "metrics/records.hpp"

namespace eqt::train {

/// Bytes by receiver of what passes point to point between open() and close(), added up over all
/// such times. Not thread-safe: neither call while another thread uses the communicator.
class EdgeCount {
 public:
  explicit EdgeCount(comm::Communicator& comm);
  void open();
  /// Adds what passed since open() to `traffic`, MPI's collectives included, which have no edges.
  void close(Traffic& traffic);
  /// By receiver.
  std::span<const std::uint64_t> sent() const { return sent_; }
  /// Other ranks count from 0: their edges are others.
  void visit_state(StateVisitor& visitor) { visitor.numbers("sent", sent_, Across::fresh); }

 private:
  comm::Communicator& comm_;
  std::vector<std::uint64_t> sent_, before_;
  comm::ByteCount bytes_before_;
};

/// The edges of all ranks that carried something, by sender, then receiver; the same on every rank.
/// Collective.
/// @param sent this rank's bytes by receiver; empty, on all ranks, gives no edges
std::vector<metrics::EdgeRecord> gather_edges(comm::Communicator& comm,
                                              std::span<const std::uint64_t> sent);

}  // namespace eqt::train
