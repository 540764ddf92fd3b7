// Ranks that were started differently find out before they train.

#pragma once

#include <cstdint>

#include "app/config/run_config.hpp"
#include "comm/communicator.hpp"
#include "data/dataset.hpp"

namespace eqt::app {

/// Compares byte order, program, LibTorch and MPI with rank 0's. Before anything else is sent.
/// @throws Error{usage} on every rank: names the first rank that differs and each difference.
/// Collective.
void require_same_program(comm::Communicator& comm);

/// Compares what this rank was told to run with rank 0's, key by key.
/// @throws Error{usage} as require_same_program. Collective.
void require_same_config(const RunConfig& config, comm::Communicator& comm);

/// Compares sizes, classes, image shapes, all labels and a sample of the images with rank 0's.
/// @throws Error{data} as require_same_program. Collective.
void require_same_data(const data::DatasetPair& data, comm::Communicator& comm);

/// Compares the hash of all ranks' shards with rank 0's: no sample is used twice only if all ranks
/// divided the same set in the same way.
/// @throws Error{data} as require_same_program. Collective.
void require_same_shards(std::uint64_t fingerprint, comm::Communicator& comm);

}  // namespace eqt::app
