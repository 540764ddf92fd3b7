// SPDX-License-Identifier: Apache-2.0
// The options of `plan`.

#pragma once

#include "planner/plan.hpp"

namespace CLI {
class App;
}

namespace eqt::app {

/// Adds them to the verb; parsing fills `plan`, which has to live as long.
void add_plan_options(CLI::App& verb, planner::PlanCommand& plan);

/// @pre the options are parsed
/// @throws Error{usage} if a plan lacks its config or cluster, or a calibration what it is made of
void require_complete(const planner::PlanCommand& plan);

}  // namespace eqt::app
