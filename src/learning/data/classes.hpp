// SPDX-License-Identifier: Apache-2.0
// Samples by their class.

#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "core/error.hpp"

namespace eqt::data {

/// The samples of each class (classes), in their original order: a stable sort by label.
inline std::vector<std::vector<std::size_t>> samples_by_class(std::span<const int> labels,
                                                              int classes) {
  std::vector<std::vector<std::size_t>> members(static_cast<std::size_t>(classes));
  for (std::size_t sample = 0; sample < labels.size(); ++sample) {
    const int label = labels[sample];
    EQT_CHECK(label >= 0 && label < classes, "label {} of {} classes", label, classes);
    members[static_cast<std::size_t>(label)].push_back(sample);
  }
  return members;
}

}  // namespace eqt::data
