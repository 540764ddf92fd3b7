// SPDX-License-Identifier: Apache-2.0
// What grades do to a run, over its steps: noise added to the gradients, bytes and seconds.

#pragma once

#include <map>
#include <string>
#include <vector>

#include "core/layout.hpp"
#include "figures/statistics.hpp"
#include "report/drawing.hpp"
#include "report/run.hpp"

namespace eqt::report {

/// Records by completed steps. Those of steps that were taken again are the later ones.
struct StepCourse {
  std::map<StepId, Figure> added_noise;  // in units of the gradients' own
  std::map<StepId, Figure> sent_bytes;   // of all ranks
  std::map<StepId, Figure> seconds;      // of rank 0
};

/// Reads the folder's metrics.jsonl. A step that is cut off or no JSON is left out.
/// @throws Error{data} for a record with a member of another type: file and line
StepCourse read_steps(const Run& run);

/// Draws noise added with its limit, bytes and seconds by step, of the runs that choose grades.
/// With many steps, each point is the median of neighbours.
void draw_adaptation(const std::vector<Run>& runs, Drawings& drawings);

}  // namespace eqt::report
