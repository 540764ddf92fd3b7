// SPDX-License-Identifier: Apache-2.0
// Groups of runs that differ only in their seed.

#pragma once

#include <string>
#include <vector>

#include "report/run.hpp"

namespace eqt::report {

using figures::spread_of;

/// Runs with equal settings, all finished or all with the same last epoch.
struct Group {
  std::string label;             // unique: the row of a sweep, or as few settings as possible
  std::vector<const Run*> runs;  // at least one
  // Settings in which groups differ: key and value, "-" where this group has no such key.
  std::vector<std::pair<std::string, std::string>> differences;

  bool finished() const { return runs.front()->finished; }
  const Run& first() const { return *runs.front(); }
  /// One figure of all runs.
  template <typename Of>
  Spread spread(Of of) const {
    std::vector<Figure> figures;
    for (const Run* run : runs) figures.push_back(of(*run));
    return spread_of(figures);
  }
};

/// Groups in the order of their labels. Runs are not distinguished by their name, their seed, the
/// place of their data and results, or their output; nor by a key that only some runs have (runs of
/// an older program have fewer), if all that have it agree. `runs` must outlive the groups.
std::vector<Group> groups_of(const std::vector<Run>& runs);

/// Returns true if a group may stand beside the others: it is finished, or none is.
bool is_comparable(const Group& group, const std::vector<Group>& groups);

/// Runs that differ from those of a finished group only in that they did not come to their end; of
/// an unfinished group none.
std::vector<const Run*> lost_runs(const Group& group, const std::vector<Group>& groups);

/// @throws Error{usage} for runs of different data sets, whose accuracies cannot be compared
void check_one_data_set(const std::vector<Run>& runs);

}  // namespace eqt::report
