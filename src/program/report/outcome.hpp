// SPDX-License-Identifier: Apache-2.0
// The outcome of a run: its final figures, or those so far.

#pragma once

#include <map>
#include <string>

#include "report/members.hpp"
#include "report/run.hpp"

namespace eqt::report {

/// The metrics of the run's task in a summary or an epoch's record, by name, without accuracy and
/// loss.
std::map<std::string, Figure> metrics_of(const Members& record, const Run& run);

/// Reads summary.json; figures that are only in epoch records are from those of `run`.
Outcome outcome_of(const Members& summary, const Run& run);

/// Computes the outcome of an unfinished run: sums and means over its epochs, and the loss of the
/// last one.
Outcome outcome_so_far(const Run& run);

}  // namespace eqt::report
