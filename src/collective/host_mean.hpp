// SPDX-License-Identifier: Apache-2.0
// Mean of float32 values over ranks that share memory.

#pragma once

#include <span>
#include <vector>

#include "comm/communicator.hpp"
#include "core/task.hpp"

namespace eqt::collective {

/// The mean of RankOrderMean, with the same bits, through the host's memory instead of messages, a
/// buffer of values at a time. Two ranks write all values and read each other's. More ranks write
/// those of the others' parts, each adds its own part and writes the mean, and all read these.
///
/// Steps    2 per buffer for two ranks, 3 for more
/// Read     by the other ranks of the host as many bytes as RankOrderMean sends
///
/// One at a time: all of a communicator's use the same buffers.
class HostMean {
 public:
  /// Replaces `values` by their mean over ranks. Collective; the same count on every rank.
  /// @pre comm.host_memory() is there
  Task operator()(comm::Communicator& comm, std::span<float> values);

 private:
  void add(const comm::Communicator& comm, const comm::HostMemory& memory, std::uint64_t turn,
           std::size_t begin, std::span<float> mean);

  std::vector<const float*> rows_;
};

}  // namespace eqt::collective
