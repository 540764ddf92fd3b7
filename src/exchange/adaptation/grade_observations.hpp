// SPDX-License-Identifier: Apache-2.0
// All ranks observe these for the adaptation of grades: rows of numbers, running means of them, and
// how fast computing, compressors and links are. Private to the room.

#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "adaptation/grade_adaptation.hpp"
#include "adaptation/grade_trial.hpp"
#include "adaptation/gradient_noise.hpp"
#include "core/error.hpp"
#include "core/saved_state.hpp"

namespace eqt::adaptation {

/// Numbers stand at these places in what the adaptation of grades exchanges and keeps.
namespace grade_numbers {

/// Says where numbers stand in what a rank sends to the others.
struct Row {
  std::size_t grades = 0, slices = 0, buckets = 0;

  static constexpr std::size_t kSamples = 0, kWeight = 1, kForward = 2, kBackward = 3, kDelayed = 4,
                               kCommunicating = 5, kAll = 6, kEncode = 7;
  std::size_t decode() const { return kEncode + grades; }
  std::size_t ready() const { return kEncode + 2 * grades; }
  std::size_t square(std::size_t slice) const { return slice_at(slice); }
  std::size_t product(std::size_t slice) const { return slice_at(slice) + 1; }
  std::size_t change(std::size_t slice) const { return slice_at(slice) + 2; }
  std::size_t error(std::size_t slice) const { return slice_at(slice) + 3; }
  std::size_t bytes(std::size_t slice) const { return slice_at(slice) + 3 + grades; }
  std::size_t size() const { return slice_at(slices); }

 private:
  std::size_t slice_at(std::size_t slice) const {
    return ready() + buckets + slice * (3 + 2 * grades);
  }
};

/// Says where numbers stand in what clocks have measured, whose means are kept.
struct Clocks {
  std::size_t grades = 0, buckets = 0;

  static constexpr std::size_t kForward = 0, kBackward = 1, kContention = 2, kEncode = 3;
  std::size_t decode() const { return kEncode + grades; }
  std::size_t ready() const { return kEncode + 2 * grades; }
  std::size_t size() const { return ready() + buckets; }
};

/// Says where numbers stand in an observation of all ranks, whose means are kept.
struct Means {
  std::size_t grades = 0, slices = 0;

  std::size_t signal(std::size_t slice) const { return slice_at(slice); }
  std::size_t sample_noise(std::size_t slice) const { return slice_at(slice) + 1; }
  std::size_t square(std::size_t slice) const { return slice_at(slice) + 2; }
  std::size_t error(std::size_t slice) const { return slice_at(slice) + 3; }
  std::size_t bytes(std::size_t slice) const { return slice_at(slice) + 3 + grades; }
  std::size_t size() const { return slice_at(slices); }

 private:
  std::size_t slice_at(std::size_t slice) const { return slice * (3 + 2 * grades); }
};

/// Returns the mean of the ranks' numbers at this place, whatever their order.
inline double mean_at(const std::vector<std::vector<double>>& rows, std::size_t place) {
  std::vector<double> values;
  for (const std::vector<double>& row : rows) values.push_back(row[place]);
  return ordered_sum(std::move(values)) / static_cast<double>(rows.size());
}

}  // namespace grade_numbers

/// Exponential means of several numbers, without the bias of their start.
class RunningMeans {
 public:
  /// @param kept of what a number counts, by the next observation
  RunningMeans(std::size_t count, double kept) : kept_(kept), sums_(count) {}

  /// @pre as many numbers
  void add(std::span<const double> numbers) {
    EQT_CHECK(numbers.size() == sums_.size(), "{} numbers for {} means", numbers.size(),
              sums_.size());
    for (std::size_t i = 0; i < sums_.size(); ++i)
      sums_[i] = kept_ * sums_[i] + (1 - kept_) * numbers[i];
    weight_ = kept_ * weight_ + (1 - kept_);
  }
  bool empty() const noexcept { return weight_ == 0; }
  /// 0 before the first add().
  double operator[](std::size_t i) const { return empty() ? 0 : sums_.at(i) / weight_; }

  void visit_state(StateVisitor& visitor) {
    visitor.doubles("sums", sums_, Across::same);
    visitor.real("weight", weight_, Across::same);
  }

 private:
  double kept_;
  std::vector<double> sums_;
  double weight_ = 0;
};

/// Gathers what a rank, or a worker that it plays, tells the others: grade_numbers::Row.
class GradeRows {
 public:
  /// Keeps references to all but `row`.
  GradeRows(comm::Communicator& comm, const codec::MixedGrades& codec,
            const std::vector<SliceParts>& slices, const grade_numbers::Row& row,
            const GradeAdaptationOptions& options);

  /// This rank's gradient, bucket by bucket.
  void take(const pipeline::FusionBucket& bucket, std::span<const float> flat);
  /// Ends a worker: all that is taken from now on belongs to the next one.
  void end_worker();
  /// @param mean stays valid until of_all_ranks()
  void take_mean(std::span<const float> mean, const StepSeconds& seconds);

  /// Keeps what was taken until the next step, whose rows say how it has changed.
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

/// The slowdown nearest to `present` with which a step would take as long as measured, within the
/// precision of the prediction: links that computing hides tell only that they are not slower.
/// A step that links have no part in tells nothing of them.
/// It is from 1 (what was measured alone is the best that a link can do) to 4096.
/// @param seconds of a step, never less with a greater slowdown
/// @param present what was found before
double link_slowdown(const std::function<double(double slowdown)>& seconds, double measured,
                     double present);

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
