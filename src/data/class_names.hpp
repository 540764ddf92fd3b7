// What the classes of each data set are called.

#pragma once

#include <string>
#include <vector>

namespace eqt::data {

/// By label: as the set's authors call them; the synthetic set's say what tells them apart.
/// @throws Error{usage} for an unknown set
std::vector<std::string> class_names(const std::string& dataset);

}  // namespace eqt::data
