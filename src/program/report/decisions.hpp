// SPDX-License-Identifier: Apache-2.0
// What runs decided by measured times, over their steps.

#pragma once

#include <string>
#include <vector>

#include "metrics/records.hpp"
#include "report/drawing.hpp"
#include "report/run.hpp"

namespace eqt::report {

/// Samples per batch of each rank over the steps; ranks with the same batches share a line.
/// @param decisions of metrics::read_decisions(), at least one, each with a number for every rank
Drawing batches_drawing(const Run& run, const std::vector<metrics::DecisionRecord>& decisions,
                        const std::string& name);

/// Those of all runs that changed their batches.
/// @throws Error{data} for a malformed decisions.jsonl
void draw_decisions(const std::vector<Run>& runs, Drawings& drawings);

}  // namespace eqt::report
