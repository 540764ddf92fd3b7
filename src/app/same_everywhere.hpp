// Ranks that were started differently find out before they train.

#pragma once

#include "app/run_config.hpp"
#include "comm/communicator.hpp"

namespace eqt::app {

/// Compares byte order, program, LibTorch and MPI with rank 0's. Before anything else is sent.
/// @throws Error{usage} on every rank: names the first rank that differs and each difference.
/// Collective.
void require_same_program(comm::Communicator& comm);

/// Compares what this rank was told to run with rank 0's, key by key.
/// @throws Error{usage} as require_same_program. Collective.
void require_same_config(const RunConfig& config, comm::Communicator& comm);

}  // namespace eqt::app
