// SPDX-License-Identifier: Apache-2.0
// How fast computing, compressors and links are, for the adaptation of grades. Private to the room.

#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include "adaptation/grade_adaptation.hpp"
#include "adaptation/grade_numbers.hpp"
#include "adaptation/running_means.hpp"

namespace eqt::adaptation {

/// Running means of what all ranks have measured.
class GradeSpeeds {
 public:
  /// @param threads that compute, of a rank
  GradeSpeeds(const grade_numbers::Row& row, int threads);

  /// @param rows of all ranks, as in grade_numbers::Row
  void add(const std::vector<std::vector<double>>& rows);
  /// Updates the slowdown of links from the measured time of the last step.
  /// @param seconds of the last step, with these speeds
  void add_step(const std::vector<std::vector<double>>& rows,
                const std::function<double(const StepSpeeds&)>& seconds);

  StepSpeeds now() const;

  void visit_state(StateVisitor& visitor);

 private:
  const grade_numbers::Row row_;
  const int threads_;
  const grade_numbers::Clocks at_;
  RunningMeans clocks_;
  double slowdown_ = 1;
};

}  // namespace eqt::adaptation
