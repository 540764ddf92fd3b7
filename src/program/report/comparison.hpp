// SPDX-License-Identifier: Apache-2.0
// The tables of every report.

#pragma once

#include <vector>

#include "figures/table.hpp"
#include "report/group.hpp"

namespace eqt::report {

using figures::Table;

/// A row per group: mean and deviation over seeds of the main quantities(), and the groups of the
/// pareto_front().
Table comparison_table(const std::vector<Group>& groups);
/// Returns a row per group: mean and deviation over seeds of all other quantities().
Table details_table(const std::vector<Group>& groups);

/// A row per setting in which groups differ; empty if there is one group.
Table settings_table(const std::vector<Group>& groups);

/// A row per run: folder, seed, how it ended, hash, remarks.
Table runs_table(const std::vector<Group>& groups);

/// Returns what all runs have in common, and the range of everything else: "key" and "value".
Table conditions_table(const std::vector<Run>& runs);

/// The position of a group relative to the Pareto front.
struct Standing {
  bool on_front = false;  // by the means: no other group has at most its bytes per rank and at
                          // least its accuracy, and one of the two better
  bool certain = true;    // true for all values within the bars, mean ± deviation, of all groups
  bool operator==(const Standing&) const = default;
};

/// Returns the standing of each group. Groups without bytes or accuracy, and unfinished ones beside
/// finished ones, are certainly not on the front. For a group of one run the bar is its value.
std::vector<Standing> pareto_front(const std::vector<Group>& groups);

/// Returns what a reader must know about the tables, one sentence each.
std::vector<std::string> warnings_of(const std::vector<Group>& groups);

}  // namespace eqt::report
