// SPDX-License-Identifier: Apache-2.0
#include "adaptation/grade_replay.hpp"

#include <algorithm>
#include <cmath>

#include "core/error.hpp"

namespace eqt::adaptation {

ReplayedGrades replayed_grades(const std::function<std::optional<Decision>(StepId done)>& replay,
                               StepId done, const ReplayedModel& model) {
  const auto found = replay(done);
  if (!found)
    fail(Kind::data,
         "compressor.replay: expected a decision after step {}, found none; replay a run of at "
         "least as many steps with the same compressor.observe_every and decide_every",
         done);
  const auto fits = [&](double value) {
    return value >= 0 && value < static_cast<double>(model.grades) && value == std::floor(value);
  };
  const std::vector<double>& values = found->values;
  const bool same_model = values.size() == model.slices + 1 &&
                          values.front() == static_cast<double>(model.fingerprint) &&
                          std::all_of(values.begin() + 1, values.end(), fits);
  if (!same_model)
    fail(Kind::data,
         "compressor.replay, step {}: expected grades of {} tensors of this model and menu, "
         "found those of others; replay a run with the same model and compressor.menu",
         done, model.slices);
  ReplayedGrades result = {.grades = {}, .why = found->why};
  for (std::size_t s = 0; s < model.slices; ++s)
    result.grades.push_back(static_cast<codec::GradeIndex>(values[s + 1]));
  return result;
}

}  // namespace eqt::adaptation
