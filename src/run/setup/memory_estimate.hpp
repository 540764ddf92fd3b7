// SPDX-License-Identifier: Apache-2.0
// Before a run takes memory, these functions tell how much it will need, and whether the system
// grants memory and threads: libraries crash, or wait for ever, where they get none.

#pragma once

#include <cstdint>
#include <string>

#include "comm/communicator.hpp"
#include "config/run_config.hpp"
#include "core/layout.hpp"
#include "data/catalogue.hpp"

namespace eqt::setup {

/// Bytes of one rank at its peak, by what they are for.
struct MemoryEstimate {
  std::uint64_t program = 0;      // libraries and what the process holds already
  std::uint64_t model = 0;        // all parameters, gradient, running statistics
  std::uint64_t optimizer = 0;    // momentum
  std::uint64_t memories = 0;     // residuals, public copies, directions, a checkpoint's copy
  std::uint64_t messages = 0;     // buffers of the collective or of gossip, and MPI's own
  std::uint64_t data_set = 0;     // as bytes, and the batches that wait
  std::uint64_t activations = 0;  // of a training step or of the test, whichever holds more
  Layout layout{};                // of the network that was looked at
  std::size_t frozen = 0;         // parameters that it has besides
  std::uint64_t total() const {
    return program + model + optimizer + memories + messages + data_set + activations;
  }
};

/// Builds the network and runs it on a few empty images, to see what a step holds. Errs on the
/// large side.
/// @param facts of look_at_data(), unless the run is emulated
/// @param ranks of the job, on which rooms for messages depend; with train.batch_sizes the largest
///        batch counts
/// @param threads of each
/// @throws Error{usage} for a network that cannot be built or data that is not for the task;
/// Error{data} for files of a data set that are missing or malformed, if only they tell its shape
/// @param simulate workers that one process plays as if they were ranks; 0: it is one
/// @param on_device the network's activations are in a device's memory, and not counted
MemoryEstimate estimate_memory(const config::RunConfig& config, const data::DatasetFacts& facts,
                               int ranks, int threads, int simulate = 0, bool on_device = false);

/// "memory: about 512 MiB per rank of 2: 210 program, ..."
std::string memory_text(const MemoryEstimate& estimate, int ranks);

/// Rank 0's estimate [bytes], after all hosts have found room for their ranks, each with its own
/// batch and its own data.
/// @throws Error{usage} on every rank if one has not: how much is needed and how much was found.
/// Collective.
std::uint64_t require_memory(const config::RunConfig& config, int simulate, bool on_device,
                             comm::Communicator& comm);

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
