// SPDX-License-Identifier: Apache-2.0
// Config keys become the compressor auto's choice of grades.

#pragma once

#include <memory>

#include "adaptation/grade_adaptation.hpp"
#include "config/run_config.hpp"
#include "setup/build_synchronization.hpp"

namespace eqt::setup {

/// Returns true if a run with this config on so many ranks measures its links before the first
/// step.
bool measures_links(const config::RunConfig& config, int ranks);

/// @pre base.messages.compressor has mixed grades
/// @throws Error{usage}, Error{data}
std::unique_ptr<adaptation::Adaptation> build_grade_adaptation(const config::RunConfig& config,
                                                               const SyncBase& base);

}  // namespace eqt::setup
