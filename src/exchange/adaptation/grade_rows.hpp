// SPDX-License-Identifier: Apache-2.0
// What all ranks observe of a step, for the adaptation of grades. Private to the room.

#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "adaptation/grade_adaptation.hpp"
#include "adaptation/grade_numbers.hpp"
#include "adaptation/grade_trial.hpp"

namespace eqt::adaptation {

/// Gathers what a rank, or a worker that it plays, tells the others: grade_numbers::Row.
class GradeRows {
 public:
  /// Keeps references to all but `row`.
  GradeRows(comm::Communicator& comm, const codec::MixedGrades& codec,
            const std::vector<SliceParts>& slices, const grade_numbers::Row& row,
            const GradeAdaptationOptions& options);

  /// This rank's gradient, bucket by bucket.
  void take(const pipeline::FusionBucket& bucket, std::span<const float> flat);
  /// What was taken is a worker's; the next is another one's.
  void end_worker();
  /// @param mean stays valid until of_all_ranks()
  void take_mean(std::span<const float> mean, const StepSeconds& seconds);

  /// What was taken is kept until the next step, whose rows say how it has changed.
  void keep();
  /// Returns the rows by rank; empty if they are to be compared with a step that was not kept.
  /// Collective.
  std::vector<std::vector<double>> of_all_ranks(StepId step);

  void visit_state(StateVisitor& visitor);

 private:
  std::vector<double> row_of(Rank rank, std::span<const float> gradient, StepId step);
  double change_of(std::size_t slice, std::size_t rank, std::span<const float> gradient) const;
  void add_seconds(std::vector<double>& row, const std::vector<GradeTrial>& trials) const;
  std::vector<std::vector<double>> exchanged(std::vector<double> own);

  comm::Communicator& comm_;
  const std::vector<SliceParts>& slices_;
  const grade_numbers::Row row_;
  const GradeAdaptationOptions& options_;
  std::vector<std::vector<SliceParts::Part>> samples_;  // by slice: what is tried
  GradeTrials trials_;
  std::vector<float> own_;                   // this rank's gradient of an observed step
  std::vector<std::vector<float>> workers_;  // the same of workers
  // Holds the gradient of this rank or of each worker in the step before; empty if steps are not
  // observed in pairs.
  std::vector<std::vector<float>> kept_;
  std::uint64_t has_kept_ = 0;
  std::span<const float> mean_;
  StepSeconds seconds_;
};

}  // namespace eqt::adaptation
