// SPDX-License-Identifier: Apache-2.0
// The starts of a run that was started several times, and its pauses: what failures have cost.

#pragma once

#include <string>
#include <vector>

#include "figures/table.hpp"
#include "report/drawing.hpp"
#include "report/members.hpp"
#include "report/run.hpp"

namespace eqt::report {

using figures::Table;

/// The starts in the folder's starts.jsonl or, where there is no such file, in the summary; none of
/// a run that an older program made.
/// @throws Error{data} for a start that is none: file and line
std::vector<Start> read_starts(const std::string& folder, const Members& summary);

/// The steps that took more than a second and more than five times the median of all. The first
/// step of a start is none of them, because it also loads and prepares.
/// @param steps all recorded ones, by step
std::vector<StepSeconds> pauses_of(const std::vector<StepSeconds>& steps,
                                   const std::vector<Start>& starts);

/// A row per start of every run that was started several times. No rows without such a run.
Table starts_table(const std::vector<Run>& runs);

/// The seconds of steps with a mark for each start after the first and for each pause, of runs that
/// have one.
void draw_interruptions(const std::vector<Run>& runs, Drawings& drawings);

}  // namespace eqt::report
