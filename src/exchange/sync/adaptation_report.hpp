// SPDX-License-Identifier: Apache-2.0
// What an adaptation has found, as records.

#pragma once

#include "adaptation/adaptation.hpp"
#include "core/layout.hpp"
#include "sync/synchronizer.hpp"

namespace eqt::sync {

/// Adds the findings and the decision of an adaptation's last adapt() to `result`.
void report_adaptation(adaptation::Adaptation& adaptation, StepId step, const Layout& layout,
                       SyncResult& result);

}  // namespace eqt::sync
