// SPDX-License-Identifier: Apache-2.0
// How many samples each rank computes per step so that all ranks end at the same time. Pure
// arithmetic.

#pragma once

#include <cstddef>
#include <deque>
#include <span>
#include <vector>

#include "core/layout.hpp"
#include "data/partition.hpp"

namespace eqt::train {

/// The computing time of a step of b samples: fixed + per_sample b [seconds].
struct RankSpeed {
  double fixed = 0, per_sample = 0;

  double seconds(std::size_t samples) const {
    return fixed + per_sample * static_cast<double>(samples);
  }
};

/// Learns a rank's speed from measurements.
class SpeedEstimate {
 public:
  static constexpr std::size_t kWindows = 8;  // measurements that count, at most
  /// A measurement that differs by more from what was expected starts anew: the rank's speed has
  /// changed.
  static constexpr double kChange = 0.2;

  struct Measurement {
    double samples = 0, seconds = 0;
  };

  void add(const Measurement& measurement);
  /// Least squares over the measurements; if they are all at about the same number of samples, or
  /// the line would cut the axis below 0, the line through 0.
  /// @pre there is a measurement
  RankSpeed speed() const;
  const std::deque<Measurement>& measurements() const noexcept { return measurements_; }
  /// Goes on from those of another estimate.
  void restore(std::span<const Measurement> measurements) {
    measurements_.assign(measurements.begin(), measurements.end());
  }

 private:
  std::deque<Measurement> measurements_;
};

/// The samples that a rank may compute per step.
struct BatchLimits {
  std::size_t least = 1, most = 1;
};

/// The division of `total` samples whose slowest rank ends first. Exact: samples are handed out one
/// by one to the rank that would end first with it, which is optimal since seconds never fall with
/// samples.
/// @param limits by rank, like `speeds`
/// @pre the sums of `least` and `most` have `total` between them
std::vector<std::size_t> allocate_batches(std::span<const RankSpeed> speeds,
                                          std::span<const BatchLimits> limits, std::size_t total);

/// The samples of `rank` among those of a batch of all ranks, which are dealt in rank order.
data::Range share_of(std::span<const std::size_t> batches, Rank rank);
/// n b_i / B: what a rank's mean gradient is multiplied by, so that the mean over ranks is the mean
/// over the samples of all.
double weight_of(std::span<const std::size_t> batches, Rank rank);

/// When the slowest rank ends [seconds].
double slowest_rank_seconds(std::span<const RankSpeed> speeds,
                            std::span<const std::size_t> batches);

}  // namespace eqt::train
