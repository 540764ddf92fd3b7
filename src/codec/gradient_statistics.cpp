#include "codec/gradient_statistics.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <vector>

#include "codec/level_kernels.hpp"

namespace eqt::codec {
namespace {

constexpr std::size_t kRun = 16;  // long enough that a Gaussian's runs look alike

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
  const double square_norm = norm * norm;
  for (std::size_t i = 0; i < bucket.size(); i += kRun) {
    const auto run = bucket.subspan(i, std::min(kRun, bucket.size() - i));
    double squares = 0;
    for (const float value : run)
      squares += static_cast<double>(value) * static_cast<double>(value);
    const auto count = static_cast<double>(run.size());
    const double mean_square = squares / count / square_norm;
    if (!(mean_square > 0)) continue;
    int exponent = 0;
    std::frexp(mean_square, &exponent);
    const auto bin =
        static_cast<std::size_t>(std::clamp(-exponent, 0, static_cast<int>(kBins) - 1));
    sums_[2 * bin] += square_norm * count;
    sums_[2 * bin + 1] += squares;  // = weight * mean_square
  }
}

std::optional<NormalMixture> GradientStatistics::mixture() const {
  std::vector<NormalComponent> components;
  for (std::size_t bin = 0; bin < kBins; ++bin) {
    const double weight = sums_[2 * bin], squares = sums_[2 * bin + 1];
    // Below, the bin's share of the variance is nothing beside the others'.
    if (!(weight > 0) || !(squares > 1e-12 * sums_.back())) continue;
    components.push_back({.weight = weight, .deviation = std::sqrt(squares / weight)});
  }
  if (components.empty()) return {};
  return NormalMixture(std::move(components));
}

double GradientStatistics::variance_scale() const noexcept {
  double weight = 0;
  for (std::size_t bin = 0; bin < kBins; ++bin) weight += sums_[2 * bin];
  return sums_.back() > 0 ? weight / sums_.back() : 0;
}

}  // namespace eqt::codec
