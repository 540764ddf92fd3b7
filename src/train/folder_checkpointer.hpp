// SPDX-License-Identifier: Apache-2.0
// Checkpoints in a folder of each rank, written while training continues.

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

/// Section names of what a run needs to know before it can be built.
inline constexpr const char* kSavedConfig = "config";          // text
inline constexpr const char* kSavedCollective = "collective";  // text
inline constexpr const char* kSavedData = "data";              // text
inline constexpr const char* kSavedPosition = "run/epoch, batch, batches";
inline constexpr const char* kSavedWorkers = "workers/count";  // of a simulation alone

struct FolderCheckpointerOptions {
  std::string run_folder;
  std::size_t keep = 2;     // complete sets, at least 1
  std::uint64_t start = 0;  // drawn by rank 0 for this job, the same on all ranks
  // Saved with the state.
  std::string config;      // resolved, as JSON
  std::string collective;  // that is used
  std::string data;        // identifies this data set
};

/// The result of the first restore_newest(), instead of searching for it.
struct Resumption {
  checkpoint::SavedSet set;
  checkpoint::Findings findings;
};

/// A set counts as complete once all ranks have told each other so, when the next save begins or
/// the run ends; older sets than the newest `keep` go then. So the disk holds up to keep + 1, and a
/// job that dies while it saves finds the set before.
/// Writes notes to `sink` on rank 0. Collective.
std::unique_ptr<Checkpointer> make_folder_checkpointer(comm::Communicator& comm,
                                                       metrics::Sink& sink,
                                                       const FolderCheckpointerOptions& options,
                                                       std::optional<Resumption> resumption);

}  // namespace eqt::train
