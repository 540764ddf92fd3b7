// All ranks' files of one step, wherever they are.

#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/state_file.hpp"
#include "checkpoint/state_folder.hpp"
#include "comm/communicator.hpp"

namespace eqt::checkpoint {

/// A set whose files are read and verified, each by one rank; the same on all ranks but for the
/// bytes. "Old" ranks are those that saved it.
class SavedSet {
 public:
  static constexpr Rank kLost = -1;

  StepId step() const noexcept { return head_.step; }
  int ranks() const noexcept { return head_.ranks; }
  /// The rank that has an old rank's file in memory; kLost: nobody has it any more.
  Rank holder(Rank old) const { return holders_.at(static_cast<std::size_t>(old)); }
  bool lacks_any() const;
  /// An old rank whose file somebody has.
  Rank any_old() const;
  /// Null unless this rank holds it.
  const StateFile* file(Rank old) const;

 private:
  friend class SetFinder;
  struct Open {
    std::vector<std::byte> bytes;
    std::optional<StateFile> file;
  };

  FileHead head_;                            // rank is meaningless
  std::vector<Rank> holders_;                // by old rank
  std::vector<std::unique_ptr<Open>> open_;  // by old rank; null unless held here
};

/// What was found beside the set, the same on all ranks: one sentence for each damaged or fetched
/// file.
struct Findings {
  std::vector<std::string> sentences;
  std::vector<StepId> newer;            // sets that were passed over
  std::vector<StepId> older;            // complete ones before it, ascending
  std::vector<StepId> older_fragments;  // others before it
};

/// Opens the newest set of which every old rank's file is good on some rank. Where as many ranks go
/// on as saved it, every rank holds its own file afterwards, fetched from a rank that has it if
/// need be. If there is no such set: the newest that was complete on all ranks once, of which files
/// are lost. Collective.
/// @return nothing if there is no set, or none that was ever complete
/// @throws Error{data} on all ranks if there are only damaged ones
std::optional<SavedSet> open_newest(comm::Communicator& comm, const StateFolder& folder,
                                    Findings& findings);

}  // namespace eqt::checkpoint
