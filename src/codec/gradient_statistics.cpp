#include "codec/gradient_statistics.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <vector>

#include "codec/level_kernels.hpp"

namespace eqt::codec {
namespace {

// Wide enough that neighbouring quarter octaves, 0.19 of their mean apart, join smoothly.
constexpr double kRelativeDeviation = 0.12;
// A bin that holds a smaller share of sum |r| is left out: its values may as well be zero.
constexpr double kLeastShare = 1e-6;

// Quarter octaves below 1: 0 for [2^(-1/4), 1].
std::size_t quarter_octave(double r, std::size_t bins) noexcept {
  int exponent = 0;
  const double mantissa = std::frexp(r, &exponent);  // [0.5, 1)
  const int quarter = (mantissa <= 0.84089641525371454) + (mantissa <= 0.70710678118654752) +
                      (mantissa <= 0.59460355750136053);
  return static_cast<std::size_t>(
      std::clamp(quarter - 4 * exponent, 0, static_cast<int>(bins) - 1));
}

}  // namespace

void GradientStatistics::add(std::span<const float> values, std::size_t bucket_size, Norm norm) {
  while (!values.empty()) {
    const auto bucket = values.first(std::min(bucket_size, values.size()));
    values = values.subspan(bucket.size());
    const double squares = sum_of_squares(bucket);
    if (!(squares > 0) || !std::isfinite(squares)) continue;
    sums_.back() += squares;
    add_bucket(bucket,
               norm == Norm::l2
                   ? std::sqrt(squares)
                   : static_cast<double>(std::bit_cast<float>(largest_magnitude_bits(bucket))));
  }
}

void GradientStatistics::add_bucket(std::span<const float> bucket, double norm) {
  for (const float value : bucket) {
    const double magnitude = std::abs(static_cast<double>(value));
    if (magnitude == 0) continue;
    const std::size_t bin = quarter_octave(magnitude / norm, kBins);
    sums_[2 * bin] += norm * norm;
    sums_[2 * bin + 1] += norm * magnitude;
  }
}

std::optional<GradientStatistics::Model> GradientStatistics::model() const {
  double total = 0;
  for (std::size_t bin = 0; bin < kBins; ++bin) total += sums_[2 * bin + 1];
  std::vector<NormalComponent> components;
  double weight = 0;
  for (std::size_t bin = 0; bin < kBins; ++bin) {
    const double bin_weight = sums_[2 * bin], magnitudes = sums_[2 * bin + 1];
    if (!(bin_weight > 0) || magnitudes < kLeastShare * total) continue;
    const double mean = magnitudes / bin_weight;
    components.push_back({bin_weight, mean, kRelativeDeviation * mean});
    weight += bin_weight;
  }
  if (components.empty()) return {};
  return Model{NormalMixture(std::move(components)), weight / sums_.back()};
}

}  // namespace eqt::codec
