// SPDX-License-Identifier: Apache-2.0
#include "model/torch/group_statistics.hpp"

#include <algorithm>
#include <cmath>

#include "model/norm_kernels.hpp"
#include "model/torch/normalization.hpp"

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

}  // namespace eqt::model
