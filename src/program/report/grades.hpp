// SPDX-License-Identifier: Apache-2.0
// The grades that a run gave its tensors, step by step, and why; what they did to it: noise added
// to the gradients, bytes and seconds.

#pragma once

#include <map>
#include <string>
#include <vector>

#include "core/layout.hpp"
#include "figures/statistics.hpp"
#include "figures/table.hpp"
#include "metrics/records.hpp"
#include "report/drawing.hpp"
#include "report/run.hpp"

namespace eqt::report {

using figures::Table;

/// A decision about grades, without the fingerprint.
struct GradeDecision {
  StepId step = 0;                  // completed
  std::vector<std::size_t> grades;  // by tensor
  std::string why;                  // visible()
};

/// Those of the folder's decisions.jsonl, by step, with names of all their tensors and grades: of
/// a run whose record names none, "tensor 1" and "grade 0". No decisions: none were made.
struct GradeCourse {
  metrics::GradesRecord names;
  bool knows_start = false;  // whether names.start is known
  std::vector<GradeDecision> decisions;
};

/// @throws Error{data} for a malformed decisions.jsonl, or decisions that do not fit the names
GradeCourse read_grades(const Run& run);

/// Tensors as rows in the network's order, steps as columns, grades as colours.
/// @pre course.decisions is not empty
Drawing grades_drawing(const Run& run, const GradeCourse& course, const std::string& name);

/// Those of all runs that chose grades.
void draw_grades(const std::vector<Run>& runs, Drawings& drawings);

/// A row per change of grades: step, tensors that changed, what they have now and why. No rows
/// without such runs.
Table grades_table(const std::vector<Run>& runs);

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
