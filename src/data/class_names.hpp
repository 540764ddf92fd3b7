// SPDX-License-Identifier: Apache-2.0
// The names of the classes of each data set.

#pragma once

#include <string>
#include <vector>

namespace eqt::data {

/// By label: the names that the set's authors use; those of the synthetic set describe the classes.
/// @throws Error{usage} for an unknown set
std::vector<std::string> class_names(const std::string& dataset);

}  // namespace eqt::data
