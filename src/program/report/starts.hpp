// SPDX-License-Identifier: Apache-2.0
// The starts of a run that was continued: which hosts were lost or came back, what that cost, and
// the steps that paused.

#pragma once

#include <string>
#include <vector>

#include "report/drawing.hpp"
#include "report/run.hpp"

namespace eqt::report {

/// One start as the run's folder has it.
struct Start {
  std::uint64_t step = 0;  // completed ones with which it begins
  std::string from;        // "the beginning", "a checkpoint" or "a state in memory"
  int ranks = 1;
  std::vector<std::string> hosts;  // names, visible()
  double time = 0;                 // since 1970 [seconds]
  std::uint64_t steps_lost = 0;    // that were computed before, and are computed again
  double seconds_lost = 0;         // of those steps, and without any step before the start
};

/// The lines of the folder's starts.jsonl; none if there is no such file.
/// @throws Error{data} with file and line
std::vector<Start> read_starts(const std::string& folder);

/// A row for each start of runs with several, and for each pause; without rows if there are none.
Table starts_table(const std::vector<Run>& runs);

/// Ranks that train over time, of runs with several starts. Where it is 0, nothing was gained.
void draw_starts(const std::vector<Run>& runs, Drawings& drawings);

}  // namespace eqt::report
