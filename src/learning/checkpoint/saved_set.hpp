// SPDX-License-Identifier: Apache-2.0
// The files of all ranks of one step, which may be on any ranks.

#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/state_file.hpp"
#include "checkpoint/state_folder.hpp"
#include "comm/communicator.hpp"

namespace eqt::checkpoint {

/// A set whose files were read and verified, each by one rank. It is the same on all ranks except
/// for the bytes. "Old" ranks are those that saved it.
class SavedSet {
 public:
  static constexpr Rank kLost = -1;

  StepId step() const noexcept { return head_.step; }
  int ranks() const noexcept { return head_.ranks; }
  /// The rank that has an old rank's file in memory; kLost if no rank has it.
  Rank holder(Rank old) const { return holders_.at(static_cast<std::size_t>(old)); }
  bool lacks_any() const;
  /// Whether it was in hosts' memory, not in their run folders.
  bool in_memory() const noexcept { return in_memory_; }
  /// An old rank whose file some rank has.
  Rank any_old() const;
  /// Null unless this rank has it.
  const StateFile* file(Rank old) const;

 private:
  friend class SetFinder;
  struct Open {
    std::vector<std::byte> bytes;
    std::optional<StateFile> file;
  };

  FileHead head_;  // rank is meaningless
  bool in_memory_ = false;
  std::vector<Rank> holders_;                // by old rank
  std::vector<std::unique_ptr<Open>> open_;  // by old rank; null unless this rank has it
};

/// The steps of the sets in a folder that were not taken, the same on all ranks. One of the taken
/// one's step, in the other kind of folder, counts as older if it was once complete, else as newer.
struct OtherSets {
  std::vector<StepId> newer;            // than the one that was taken
  std::vector<StepId> older;            // complete, ascending
  std::vector<StepId> older_fragments;  // that are not
};

/// Findings tell what else was found, the same on all ranks. `sentences` has one for each damaged
/// or fetched file.
struct Findings {
  std::vector<std::string> sentences;
  OtherSets on_disk, in_memory;
};

/// Opens the newest set in which the file of every old rank is intact on some rank. If the number
/// of ranks is the same, every rank then has its own file, fetched from another rank if necessary.
/// A set in memory is also taken without the files of lost hosts, if it was once complete on all
/// ranks: a newer state is worth more than what these ranks had alone. If there is no such set,
/// opens the newest one on disks that was once complete and has lost files. Collective.
/// @param disk in this rank's run folder
/// @param memory null on all ranks: only sets on disks
/// @return empty if there is no set, or none that was ever complete
/// @throws Error{data} on all ranks if all sets are damaged
std::optional<SavedSet> open_newest(comm::Communicator& comm, const StateFolder& disk,
                                    const StateFolder* memory, Findings& findings);

/// Sends bytes of any number to a rank that calls receive_whole() for as many.
/// @param what a string literal, named when the deadline passes
void send_whole(comm::Communicator& comm, Rank to, std::span<const std::byte> bytes,
                const char* what);
/// @throws Error{wire} if other bytes come
void receive_whole(comm::Communicator& comm, Rank from, std::span<std::byte> buffer,
                   const char* what);

}  // namespace eqt::checkpoint
