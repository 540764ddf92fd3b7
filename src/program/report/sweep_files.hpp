// SPDX-License-Identifier: Apache-2.0
// What scripts/sweep.sh writes beside the folder of a run.

#pragma once

#include <filesystem>

#include "report/run.hpp"

namespace eqt::report {

/// Reads NAME.recipe.json (settings of the sweep that are not in the config; NAME is that of the
/// row), NAME.plan.json (the seconds that the run would take on links) and NAME.state.json (how a
/// run ended that has no summary). What is missing, or is not of this form, is left out: a report
/// needs none of it.
/// @throws Error{data} if a file is too large or cannot be read
void read_beside(const std::filesystem::path& folder, Run& run);

}  // namespace eqt::report
