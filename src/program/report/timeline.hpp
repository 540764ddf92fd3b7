// SPDX-License-Identifier: Apache-2.0
// When ranks computed, waited and exchanged messages: a picture of a few steps, and who waits for
// whom.

#pragma once

#include <optional>
#include <string>
#include <vector>

#include "figures/table.hpp"
#include "metrics/records.hpp"
#include "report/drawing.hpp"
#include "report/run.hpp"

namespace eqt::report {

using figures::Table;

struct StepRange {
  StepId first = 1, last = 1;
};

/// Reads "A:B", or "A" for one step. @throws Error{usage} for any other text
StepRange parse_steps(const std::string& text);

/// The steps of `range` in the folder's timeline.jsonl, or its last four, by step and rank; nothing
/// if there is no such file. Of several lines for the same step and rank the last one counts.
/// @throws Error{data} for a line that is none: file and line
std::vector<metrics::TimelineRecord> read_timeline(const std::string& folder, int ranks,
                                                   const std::optional<StepRange>& range);

/// A row per rank: on top what it does itself, below the messages beside it.
/// @pre records is not empty
Drawing timeline_drawing(const Run& run, const std::vector<metrics::TimelineRecord>& records,
                         const std::string& name);

/// Those of all runs that have a timeline.
void draw_timelines(const std::vector<Run>& runs, const std::optional<StepRange>& range,
                    Drawings& drawings);

/// A row per rank of every run whose records have seconds by rank: a mean step. No rows without
/// such a run.
Table waiting_table(const std::vector<Run>& runs);

}  // namespace eqt::report
