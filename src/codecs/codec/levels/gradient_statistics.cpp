// SPDX-License-Identifier: Apache-2.0
#include "codec/levels/gradient_statistics.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <vector>

#include "codec/levels/level_kernels.hpp"

namespace eqt::codec {
namespace {

// Wide enough that neighbouring quarter octaves, 0.19 of their mean apart, overlap smoothly.
constexpr double kRelativeDeviation = 0.12;
// A bin with a smaller share of sum |r| is left out: its values do not matter.
constexpr double kMinShare = 1e-6;

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
    open_sums();
    exact_.back().add(squares);
    add_bucket(bucket,
               norm == Norm::l2
                   ? std::sqrt(squares)
                   : static_cast<double>(std::bit_cast<float>(largest_magnitude_bits(bucket))));
  }
}

// Continues from the rounded sums, if there are any.
void GradientStatistics::open_sums() {
  if (!exact_.empty()) return;
  exact_.resize(sums_.size());
  for (std::size_t i = 0; i < sums_.size(); ++i) exact_[i].add(sums_[i]);
}

void GradientStatistics::add_bucket(std::span<const float> bucket, double norm) {
  std::array<double, kBins> count{}, magnitudes{};
  for (const float value : bucket) {
    const double magnitude = std::abs(static_cast<double>(value));
    if (magnitude == 0) continue;
    const std::size_t bin = quarter_octave(magnitude / norm, kBins);
    count[bin] += 1;
    magnitudes[bin] += magnitude;
  }
  for (std::size_t bin = 0; bin < kBins; ++bin) {
    if (count[bin] == 0) continue;
    exact_[2 * bin].add(count[bin] * (norm * norm));
    exact_[2 * bin + 1].add(norm * magnitudes[bin]);
  }
}

void GradientStatistics::clear() noexcept {
  sums_.fill(0);
  exact_.clear();
}

std::span<double> GradientStatistics::sums() noexcept {
  for (std::size_t i = 0; i < exact_.size(); ++i) sums_[i] = exact_[i].value();
  exact_.clear();
  return sums_;
}

double GradientStatistics::sum(std::size_t i) const noexcept {
  return exact_.empty() ? sums_[i] : exact_[i].value();
}

std::optional<GradientStatistics::Model> GradientStatistics::model() const {
  double total = 0;
  for (std::size_t bin = 0; bin < kBins; ++bin) total += sum(2 * bin + 1);
  std::vector<NormalComponent> components;
  double weight = 0;
  for (std::size_t bin = 0; bin < kBins; ++bin) {
    const double bin_weight = sum(2 * bin), magnitudes = sum(2 * bin + 1);
    if (!(bin_weight > 0) || magnitudes < kMinShare * total) continue;
    const double mean = magnitudes / bin_weight;
    components.push_back({bin_weight, mean, kRelativeDeviation * mean});
    weight += bin_weight;
  }
  if (components.empty()) return {};
  return Model{NormalMixture(std::move(components)), weight / sum(2 * kBins)};
}

}  // namespace eqt::codec
