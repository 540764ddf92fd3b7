// SPDX-License-Identifier: Apache-2.0
// The plans of all schemes, and how they are shown. Private to the room.

#pragma once

#include <optional>
#include <string>
#include <vector>

#include "planner/plan.hpp"
#include "planner/planned_run.hpp"
#include "report/drawing.hpp"

namespace eqt::planner {

/// Plans of each scheme for the whole cluster, and for other numbers of ranks.
struct Plans {
  std::vector<PlannedRun> whole;  // by scheme, as in the file
  std::vector<int> ranks;
  std::vector<std::vector<PlannedRun>> by_ranks;  // [scheme][number]
  std::vector<double> break_even{};               // by scheme, below which it beats float32
  std::optional<std::size_t> float32{};           // the scheme that compresses nothing
  std::size_t best = 0;
  std::vector<std::string> left_out{};  // schemes without a plan, and why
};

/// Time that a sample takes, by which schemes with other batches are compared.
inline double seconds_a_sample(const PlannedRun& run) {
  return run.forecast.mean_seconds / run.samples;
}

/// What a reader has to know beside the figures: what was guessed, what does not fit.
std::vector<std::string> notes_of(const Plans& plans, const ClusterFile& file,
                                  const Subject& subject);

/// A sentence, two tables and the notes.
void print_text(const Plans& plans, const ClusterFile& file, const std::vector<std::string>& notes);
void print_json(const Plans& plans, const ClusterFile& file, const std::vector<std::string>& notes);

/// Time of an epoch by number of ranks, a curve for each scheme.
report::Drawing drawing_of(const Plans& plans);

}  // namespace eqt::planner
