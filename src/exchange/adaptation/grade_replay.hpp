// SPDX-License-Identifier: Apache-2.0
// Grades that another run decided, checked before they are used.

#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "adaptation/adaptation.hpp"
#include "codec/mixed/mixed_grades.hpp"

namespace eqt::adaptation {

struct ReplayedGrades {
  std::vector<codec::GradeIndex> grades;  // by slice
  std::string why;
};

/// A decision must fit these numbers.
struct ReplayedModel {
  std::uint32_t fingerprint = 0;  // of model and menu
  std::size_t slices = 0, grades = 0;
};

/// The other run's decision after `done` completed steps.
/// @throws Error{data} if there is none, or it is of another model or menu
ReplayedGrades replayed_grades(const std::function<std::optional<Decision>(StepId done)>& replay,
                               StepId done, const ReplayedModel& model);

}  // namespace eqt::adaptation
