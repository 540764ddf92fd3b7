// SPDX-License-Identifier: Apache-2.0
// Mean of float32 values over ranks that share memory.

#pragma once

#include <span>

#include "comm/communicator.hpp"
#include "core/task.hpp"

namespace eqt::collective {

/// Returns true if these values are in the host's memory. All ranks have the same answer for the
/// same part of their arrays.
bool in_host_memory(comm::Communicator& comm, std::span<const float> values);

/// The mean of RankOrderMean, with the same bits, in the arrays of a host's ranks: when all have
/// their values there, each adds its part of all arrays in rank order and writes the mean to all.
///
/// Rounds   2, of counters
/// Read     as many bytes of other ranks' arrays as RankOrderMean sends; counted as its messages
///
/// One at a time for each communicator.
/// @pre in_host_memory()
Task mean_in_host_memory(comm::Communicator& comm, std::span<float> values);

}  // namespace eqt::collective
