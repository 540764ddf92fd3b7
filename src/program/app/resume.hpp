// SPDX-License-Identifier: Apache-2.0
// The checkpoint for --resume, and checks that this run may continue from it.

#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "comm/communicator.hpp"
#include "config/facts.hpp"
#include "config/run_config.hpp"
#include "setup/build_run.hpp"
#include "train/folder_checkpointer.hpp"

namespace eqt::app {

struct Resume {
  train::Resumption resumption;
  setup::SavedPosition position;
  config::RunConfig config;  // the run's, with the collective of the saved run
  std::string note;          // keys that have changed; may be empty
  // It is that of the run whose states hosts have in memory (checkpoint::number_in_memory); 0: they
  // have none.
  std::uint64_t memory_number = 0;
};

/// Compares the config that saved a state with the one that is to continue from it. `now` with
/// collective "auto" takes `collective`, which the saved run used, so that nothing is chosen again,
/// and with error feedback "auto" what the saved run had.
/// @return one line about keys that have changed and may; may be empty
/// @throws Error{usage} naming each changed key that affects the meaning of the state
std::string settle_resumed_config(const config::RunConfig& saved, const std::string& collective,
                                  bool same_ranks, config::RunConfig& now);

/// The newest valid state in `run_folder`, or in the hosts' memory (checkpoint::open_newest). Where
/// hosts keep states of several runs for this folder, those of the newest run count. Collective.
/// @param simulate number of simulated ranks; a state of another number is refused
/// @return empty if there is none
/// @throws Error{data}, Error{usage} on all ranks
std::optional<Resume> find_resume(const config::RunConfig& config, const std::string& run_folder,
                                  int simulate, comm::Communicator& comm);

/// Compares the run's data with those that the saved state was trained on.
/// @param now the same on all ranks
/// @throws Error{data} on all ranks, naming each difference. Collective.
void require_saved_data(const checkpoint::SavedSet& set, const config::Facts& now,
                        comm::Communicator& comm);

/// Compares the files that the config names, setup::facts_of_named_files(), with those of the saved
/// state. A key that names none now, or did not, is not compared, and the graph only on as many
/// ranks. Adds to resume.note what was compared in pieces.
/// @param now the same on all ranks
/// @throws Error{data} on all ranks, naming the files. Collective.
void require_saved_files(Resume& resume, const config::Facts& now, comm::Communicator& comm);

}  // namespace eqt::app
