// SPDX-License-Identifier: Apache-2.0
// How long the steps of an emulated board take, where they do not all take the same time.

#pragma once

#include <cstdint>
#include <vector>

#include "core/layout.hpp"

namespace eqt::forecast {

/// From a step on, the compute time of a board is multiplied by a factor, until its next change.
struct SpeedChange {
  StepId step = 1;  // counted from 1, as in records
  double factor = 1;
};

struct BoardSpeed {
  double cv = 0;                     // coefficient of variation of the time of a step
  double stall_every = 0;            // mean distance of stalls [steps]; 0 = none
  double stall_seconds = 0;          // of each stall
  std::vector<SpeedChange> changes;  // of this board; of those of a step the last one counts
};

/// Both fields change the usual time of a step.
struct StepTime {
  double factor = 1;         // of the compute time
  double stall_seconds = 0;  // before it
};

/// The factor is lognormal with mean 1 and the coefficient of variation cv, times that of the last
/// change; the number of stalls is Poisson's with mean 1 / stall_every. A pure function of its
/// arguments. @param step counted from 1
StepTime step_time(const BoardSpeed& speed, std::uint64_t seed, StepId step, Rank rank);

/// The factor below which half of all steps are, without changes.
double typical_factor(const BoardSpeed& speed);

/// The longest of the times of `ranks` ranks in a step, from one random number each:
/// F^-1(u^(1 / ranks)) is distributed as the greatest of so many draws from F.
/// @pre ranks >= 1
StepTime slowest_step_time(const BoardSpeed& speed, std::uint64_t seed, StepId step, Rank rank,
                           int ranks);

}  // namespace eqt::forecast
