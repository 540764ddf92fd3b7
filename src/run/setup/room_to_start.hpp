// SPDX-License-Identifier: Apache-2.0
// Whether the system grants the memory and the threads that a job takes, asked before libraries
// take them: those crash, or wait for ever, where they get none.

#pragma once

#include <cstdint>

#include "comm/communicator.hpp"

namespace eqt::setup {

/// Memory and threads for MPI and LibTorch to start with. Not collective, before MPI starts.
/// @throws Error{usage}
void require_room_to_start();

/// @param computing threads of each rank for the network
/// @param loading threads of each rank for batches
/// @throws Error{usage} on all ranks where there are too few cores or the system grants fewer
/// threads
void require_threads(int computing, int loading, comm::Communicator& comm);

/// Addresses for `bytes` more on each rank, whatever the memory that is free.
/// @throws Error{usage} on all ranks
void require_addresses(std::uint64_t bytes, comm::Communicator& comm);

}  // namespace eqt::setup
