// SPDX-License-Identifier: Apache-2.0
#include "train/batch_allocation.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <queue>
#include <utility>

#include "core/error.hpp"

namespace eqt::train {

void SpeedEstimate::add(const Measurement& measurement) {
  if (!measurements_.empty()) {
    const RankSpeed now = speed();
    const double expected = now.fixed + now.per_sample * measurement.samples;
    if (std::abs(measurement.seconds - expected) > kChange * expected) measurements_.clear();
  }
  measurements_.push_back(measurement);
  if (measurements_.size() > kWindows) measurements_.pop_front();
}

RankSpeed SpeedEstimate::speed() const {
  EQT_CHECK(!measurements_.empty(), "a speed without a measurement");
  // Below this relative spread of the numbers of samples noise decides the slope.
  constexpr double kSpread = 0.05;
  const auto count = static_cast<double>(measurements_.size());
  double samples = 0, seconds = 0;
  for (const Measurement& m : measurements_) {
    samples += m.samples / count;
    seconds += m.seconds / count;
  }
  double spread = 0, product = 0, square = 0, through_zero = 0;
  for (const Measurement& m : measurements_) {
    spread += (m.samples - samples) * (m.samples - samples);
    product += (m.samples - samples) * (m.seconds - seconds);
    square += m.samples * m.samples;
    through_zero += m.samples * m.seconds;
  }
  const RankSpeed proportional = {.fixed = 0, .per_sample = through_zero / square};
  if (spread <= count * kSpread * kSpread * samples * samples) return proportional;
  const double slope = std::max(0.0, product / spread);
  const double fixed = seconds - slope * samples;
  if (fixed < 0) return proportional;
  return {.fixed = fixed, .per_sample = slope};
}

std::vector<std::size_t> allocate_batches(std::span<const RankSpeed> speeds,
                                          std::span<const BatchLimits> limits, std::size_t total) {
  EQT_CHECK(speeds.size() == limits.size(), "{} speeds, {} limits", speeds.size(), limits.size());
  std::vector<std::size_t> batches;
  std::size_t given = 0;
  using End = std::pair<double, std::size_t>;  // seconds with one sample more, and the rank
  std::priority_queue<End, std::vector<End>, std::greater<>> next;
  for (std::size_t rank = 0; rank < speeds.size(); ++rank) {
    const auto& [least, most] = limits[rank];
    batches.push_back(least);
    given += least;
    if (least < most) next.emplace(speeds[rank].seconds(least + 1), rank);
  }
  EQT_CHECK(given <= total, "{} samples are too few for the least batches, {}", total, given);
  for (; given < total; ++given) {
    EQT_CHECK(!next.empty(), "{} samples are more than the greatest batches", total);
    const std::size_t rank = next.top().second;
    next.pop();
    const std::size_t samples = ++batches[rank];
    if (samples < limits[rank].most) next.emplace(speeds[rank].seconds(samples + 1), rank);
  }
  return batches;
}

data::Range share_of(std::span<const std::size_t> batches, Rank rank) {
  const auto own = static_cast<std::size_t>(rank);
  const std::size_t begin =
      std::accumulate(batches.begin(), batches.begin() + rank, std::size_t{0});
  return {begin, begin + batches[own]};
}

double weight_of(std::span<const std::size_t> batches, Rank rank) {
  const std::size_t total = std::accumulate(batches.begin(), batches.end(), std::size_t{0});
  return static_cast<double>(batches.size() * batches[static_cast<std::size_t>(rank)]) /
         static_cast<double>(total);
}

double slowest_rank_seconds(std::span<const RankSpeed> speeds,
                            std::span<const std::size_t> batches) {
  double slowest = 0;
  for (std::size_t rank = 0; rank < speeds.size(); ++rank)
    slowest = std::max(slowest, speeds[rank].seconds(batches[rank]));
  return slowest;
}

}  // namespace eqt::train
