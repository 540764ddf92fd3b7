// SPDX-License-Identifier: Apache-2.0
#include "model/range_meter.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numbers>

#include "core/error.hpp"
#include "model/norm_kernels.hpp"

namespace eqt::model {

double range_factor(std::size_t n) {
  return 0.5 * 0.35 * (1 + std::sqrt(std::numbers::pi * std::log(4.0))) /
         std::sqrt(2 * std::log(static_cast<double>(n)));
}

double inverse_range(double range, std::size_t n) {
  return 1.0 / (range_factor(n) * range + kNormEpsilon);
}

std::size_t chunk_values(std::size_t count, const std::string& layer, const std::string& what) {
  if (count % kRangeChunks != 0 || count / kRangeChunks < 2) {
    fail(Kind::usage,
         "{}: expected a multiple of {} that is at least {}, to cut {} into chunks for a range, "
         "found {}; choose another model.normalization, or batch and image sizes that are powers "
         "of 2",
         layer, kRangeChunks, 2 * kRangeChunks, what, count);
  }
  return count / kRangeChunks;
}

RangeMeter::RangeMeter(std::size_t rows, std::size_t channels, std::size_t groups)
    : rows_(rows),
      channels_(channels),
      groups_(groups),
      chunk_(rows * (channels / groups) / kRangeChunks) {
  EQT_CHECK(rows * (channels / groups) % kRangeChunks == 0, "{} values of {} channels", rows,
            channels / groups);
  for (std::size_t i = 0; i < kRangeChunks; ++i) cuts_.push_back(i * chunk_ % rows);
  std::ranges::sort(cuts_);
  cuts_.erase(std::ranges::unique(cuts_).begin(), cuts_.end());
  cuts_.push_back(rows);
  parts_.assign(cuts_.size() - 1, ExtremesBuffer(channels));
}

void RangeMeter::scan(std::span<const float> x) {
  for (std::size_t p = 0; p < parts_.size(); ++p) {
    parts_[p].clear();
    const std::size_t first = cuts_[p] * channels_, last = cuts_[p + 1] * channels_;
    update_extremes(x.subspan(first, last - first), cuts_[p], parts_[p].extremes());
  }
}

double RangeMeter::mean_range(std::size_t group, std::span<std::int32_t> where) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  std::array<float, kRangeChunks> max, min;
  max.fill(-kInfinity);
  min.fill(kInfinity);
  std::ranges::fill(where, 0);  // for chunks of NaN only
  const std::size_t width = channels_ / groups_;
  // In the order of the values, so that the first of equal values is kept.
  for (std::size_t i = 0; i < width; ++i) {
    const std::size_t c = group * width + i;
    const auto offset = [&](std::int32_t row) {
      return static_cast<std::int32_t>(static_cast<std::size_t>(row) * channels_ + c);
    };
    for (std::size_t p = 0; p < parts_.size(); ++p) {
      const Extremes part = parts_[p].extremes();
      const std::size_t chunk = (i * rows_ + cuts_[p]) / chunk_;
      if (part.max[c] > max[chunk]) {
        max[chunk] = part.max[c];
        where[2 * chunk] = offset(part.max_row[c]);
      }
      if (part.min[c] < min[chunk]) {
        min[chunk] = part.min[c];
        where[2 * chunk + 1] = offset(part.min_row[c]);
      }
    }
  }
  double sum = 0;
  for (std::size_t k = 0; k < kRangeChunks; ++k) {
    sum += static_cast<double>(max[k]) - static_cast<double>(min[k]);
  }
  return sum / kRangeChunks;
}

}  // namespace eqt::model
