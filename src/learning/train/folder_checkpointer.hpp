// SPDX-License-Identifier: Apache-2.0
// Checkpoints in a folder of each rank, and states in the memory of each host, written while
// training continues.

#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/saved_set.hpp"
#include "comm/communicator.hpp"
#include "metrics/sink.hpp"
#include "train/checkpointer.hpp"

namespace eqt::train {

/// Names of the sections that are read before the run is built.
inline constexpr const char* kSavedConfig = "config";          // text
inline constexpr const char* kSavedCollective = "collective";  // text
inline constexpr const char* kSavedData = "data";              // text
inline constexpr const char* kSavedFiles = "files";            // text; not in older ones
inline constexpr const char* kSavedPosition = "run/epoch, batch, batches";
inline constexpr const char* kSavedFlags = "run/rollbacks, epoch open, mixed";
inline constexpr const char* kSavedWorkers = "workers/count";  // only of simulations

struct FolderCheckpointerOptions {
  std::string run_folder;
  std::size_t keep = 2;             // complete sets, at least 1
  std::uint64_t start = 0;          // drawn by rank 0 for this job, the same on all ranks
  double memory_seconds = 0;        // between states in the hosts' memory, at least; 0 = none
  std::uint64_t memory_number = 0;  // of the run, the same on all ranks; 0: never in memory
  bool goes_back = false;           // the run may return to a set that it resumed from
  // Saved with the state.
  std::string config;      // resolved, as JSON
  std::string collective;  // that is used
  std::string data;        // identifies this data set
  std::string files;       // identifies the files that the config names
};

/// The result of the first restore_newest(), instead of searching for it.
struct Resumption {
  checkpoint::SavedSet set;
  checkpoint::Findings findings;
};

/// A set is complete when all ranks have reported their files, at the beginning of the next save or
/// at the end of the run; then only the newest `keep` sets are kept. So there are up to keep + 1
/// sets on the disk, and after a crash during a save the set before is there. In memory there is
/// one set, and while it is written one more; it costs at most a hundredth of a processor's time.
/// Where a host's memory is full or cannot be used, a note says so, and training continues. Writes
/// notes to `sink` on rank 0. Collective.
std::unique_ptr<Checkpointer> make_folder_checkpointer(comm::Communicator& comm,
                                                       metrics::Sink& sink,
                                                       const FolderCheckpointerOptions& options,
                                                       std::optional<Resumption> resumption);

}  // namespace eqt::train
