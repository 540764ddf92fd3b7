// SPDX-License-Identifier: Apache-2.0
// `plan --calibrate`: one document from what other verbs measured.

#pragma once

#include <string>
#include <vector>

#include "planner/calibration/calibration.hpp"
#include "planner/calibration/calibration_sources.hpp"

namespace eqt::planner {

/// Puts sources together, in their order. Links of several documents of doctor are those of one.
/// @param paths of the sources, for `made_from`
/// @param notes gets what was left out, and how well the costs of messages fit
Calibration combine(const std::vector<Source>& sources, const std::vector<std::string>& paths,
                    std::vector<std::string>& notes);

/// Reads the sources, writes the document and prints what it holds.
/// @throws Error{usage}, Error{data} as read_source(), Error{output}
void calibrate(const std::vector<std::string>& paths, const std::string& out);

}  // namespace eqt::planner
