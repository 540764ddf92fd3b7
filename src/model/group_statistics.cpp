// SPDX-License-Identifier: Apache-2.0
#include "model/group_statistics.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numbers>

#include "core/error.hpp"
#include "model/norm_kernels.hpp"
#include "model/normalization.hpp"

namespace eqt::model {

at::Tensor add_samples(std::span<const double> sums, const GroupShape& shape) {
  const std::size_t channels = shape.channels;
  std::vector<double> total(channels);
  for (std::size_t i = 0; i < shape.samples; ++i) {
    const auto sample = sums.subspan(i * channels, channels);
    for (std::size_t c = 0; c < channels; ++c) total[c] += sample[c];
  }
  at::Tensor result = at::empty({static_cast<std::int64_t>(channels)}, at::kFloat);
  std::ranges::transform(total, values(result).begin(),
                         [](double sum) { return static_cast<float>(sum); });
  return result;
}

VarianceStatistics::VarianceStatistics(const GroupShape& shape)
    : tensor_(at::empty(
          {static_cast<std::int64_t>(shape.samples), 2, static_cast<std::int64_t>(shape.groups)},
          at::kFloat)) {}

VarianceMeter::VarianceMeter(const GroupShape& shape)
    : shape_(shape), blocks_(shape.blocks()), partials_(blocks_), mean_(shape.groups) {}

void VarianceMeter::measure(std::span<const float> x, const VarianceStatistics& statistics,
                            std::size_t sample) {
  const std::size_t width = shape_.group_channels();
  const double count = static_cast<double>(shape_.group_values());
  std::ranges::fill(mean_, 0.0);
  for (std::size_t b = 0; b < blocks_.count(); ++b) {
    const std::span<float> mean = partials_.first(b);
    channel_moments_near(blocks_.cut(x, b), mean, partials_.second(b));
    const double weight = static_cast<double>(blocks_.rows_of(b)) / count;
    for (std::size_t group = 0; group < shape_.groups; ++group) {
      double sum = 0;
      for (const float m : mean.subspan(group * width, width)) sum += m;
      mean_[group] += weight * sum;
    }
  }
  // Chan, Golub, LeVeque (1983): the sum of the squares, plus the squared differences of the means.
  for (std::size_t group = 0; group < shape_.groups; ++group) {
    double squares = 0;
    for (std::size_t b = 0; b < blocks_.count(); ++b) {
      const auto mean = partials_.first(b).subspan(group * width, width);
      const auto square = partials_.second(b).subspan(group * width, width);
      double inner = 0, outer = 0;
      for (std::size_t c = 0; c < width; ++c) {
        const double difference = mean[c] - mean_[group];
        inner += square[c];
        outer += difference * difference;
      }
      squares += inner + static_cast<double>(blocks_.rows_of(b)) * outer;
    }
    statistics.mean(sample)[group] = static_cast<float>(mean_[group]);
    statistics.inverse(sample)[group] =
        static_cast<float>(1.0 / std::sqrt(squares / count + kNormEpsilon));
  }
}

double range_factor(std::size_t n) {
  return 0.5 * 0.35 * (1 + std::sqrt(std::numbers::pi * std::log(4.0))) /
         std::sqrt(2 * std::log(static_cast<double>(n)));
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

RangeStatistics::RangeStatistics(const GroupShape& shape) {
  const auto samples = static_cast<std::int64_t>(shape.samples);
  const auto groups = static_cast<std::int64_t>(shape.groups);
  inverse_ = at::empty({samples, groups}, at::kFloat);
  extremes_ = at::empty({samples, groups, static_cast<std::int64_t>(kRangeChunks), 2}, at::kInt);
}

std::span<float> RangeStatistics::inverse(std::size_t sample) const {
  const auto groups = static_cast<std::size_t>(inverse_.size(1));
  return values(inverse_).subspan(sample * groups, groups);
}

std::span<std::int32_t> RangeStatistics::extremes(std::size_t sample) const {
  const std::size_t count = static_cast<std::size_t>(inverse_.size(1)) * kRangeChunks * 2;
  return {extremes_.data_ptr<std::int32_t>() + sample * count, count};
}

RangeMeter::RangeMeter(const GroupShape& shape)
    : shape_(shape), chunk_(shape.group_values() / kRangeChunks) {
  EQT_CHECK(shape.group_values() % kRangeChunks == 0, "{} values", shape.group_values());
  for (std::size_t i = 0; i < kRangeChunks; ++i) cuts_.push_back(i * chunk_ % shape.rows);
  std::ranges::sort(cuts_);
  cuts_.erase(std::ranges::unique(cuts_).begin(), cuts_.end());
  cuts_.push_back(shape.rows);
  parts_.assign(cuts_.size() - 1, ExtremesBuffer(shape.channels));
}

void RangeMeter::scan(std::span<const float> x) {
  for (std::size_t p = 0; p < parts_.size(); ++p) {
    parts_[p].clear();
    const std::size_t first = cuts_[p] * shape_.channels, last = cuts_[p + 1] * shape_.channels;
    update_extremes(x.subspan(first, last - first), cuts_[p], parts_[p].extremes());
  }
}

void RangeMeter::measure(std::span<const float> x, const RangeStatistics& statistics,
                         std::size_t sample) {
  scan(x);
  constexpr std::size_t kEnds = 2 * kRangeChunks;
  for (std::size_t group = 0; group < shape_.groups; ++group) {
    const double range =
        mean_range(group, statistics.extremes(sample).subspan(group * kEnds, kEnds));
    statistics.inverse(sample)[group] =
        static_cast<float>(1.0 / (range_factor(chunk_) * range + kNormEpsilon));
  }
}

double RangeMeter::mean_range(std::size_t group, std::span<std::int32_t> where) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  std::array<float, kRangeChunks> max, min;
  max.fill(-kInfinity);
  min.fill(kInfinity);
  std::ranges::fill(where, 0);  // for chunks of NaN only
  const std::size_t width = shape_.group_channels();
  // In the order of the values, so that the first of equal values is kept.
  for (std::size_t i = 0; i < width; ++i) {
    const std::size_t c = group * width + i;
    const auto offset = [&](std::int32_t row) {
      return static_cast<std::int32_t>(static_cast<std::size_t>(row) * shape_.channels + c);
    };
    for (std::size_t p = 0; p < parts_.size(); ++p) {
      const Extremes part = parts_[p].extremes();
      const std::size_t chunk = (i * shape_.rows + cuts_[p]) / chunk_;
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
