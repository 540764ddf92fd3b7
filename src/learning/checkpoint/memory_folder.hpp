// SPDX-License-Identifier: Apache-2.0
// States in a host's memory: a folder of /dev/shm, whose files live on when the ranks end, and are
// gone when the host starts anew. docs/checkpoints.md describes it.

#pragma once

#include <cstdint>
#include <string>

#include "checkpoint/state_folder.hpp"

namespace eqt::checkpoint {

/// The folder of a run's states in memory: /dev/shm/equant-train-USER/NUMBER, or below
/// EQT_MEMORY_FOLDER in place of /dev/shm. It may not exist.
/// @param number of the run, not 0
StateFolder memory_folder(std::uint64_t number);

/// The number of the run that keeps states in this host's memory for `run_folder`, which its file
/// checkpoints/memory says; 0 if there is none, or another text.
std::uint64_t number_in_memory(const std::string& run_folder) noexcept;

/// Makes the folder of run `number` in memory, readable by this user alone, and checkpoints/memory
/// in `run_folder`. Any rank of a host may call it at any time. Removes what runs have left in
/// memory whose folder is gone.
/// @throws Error{output} if one cannot be made, or is another user's
void open_memory(const std::string& run_folder, std::uint64_t number);

/// Removes the states that this host keeps in memory for `run_folder`, checkpoints/memory, and
/// folders that are empty then. What cannot be removed stays.
void close_memory(const std::string& run_folder) noexcept;

}  // namespace eqt::checkpoint
