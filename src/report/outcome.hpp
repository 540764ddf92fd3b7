// How a run ended, or how far it came.

#pragma once

#include "report/members.hpp"
#include "report/run.hpp"

namespace eqt::report {

/// From summary.json; what only epochs tell comes from `run`'s.
Outcome outcome_of(const Members& summary, const Run& run);

/// Of an unfinished run: sums and means over the epochs that there are, the last one's loss.
Outcome outcome_so_far(const Run& run);

}  // namespace eqt::report
