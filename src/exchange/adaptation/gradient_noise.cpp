// SPDX-License-Identifier: Apache-2.0
#include "adaptation/gradient_noise.hpp"

#include <algorithm>
#include <numeric>

#include "core/error.hpp"

namespace eqt::adaptation {

double ordered_sum(std::vector<double> values) {
  std::ranges::sort(values);
  return std::accumulate(values.begin(), values.end(), 0.0);
}

NoiseEstimate estimate_noise(std::span<const SliceSums> sums, std::span<const RankBatch> batches) {
  EQT_CHECK(sums.size() >= 2 && sums.size() == batches.size(), "{} sums of {} ranks", sums.size(),
            batches.size());
  const auto n = static_cast<double>(sums.size());
  std::vector<double> squares, weighted, products, inverse;
  for (std::size_t i = 0; i < sums.size(); ++i) {
    squares.push_back(sums[i].square);
    weighted.push_back(batches[i].weight * sums[i].square);
    products.push_back(sums[i].product);
    inverse.push_back(1 / batches[i].samples);
  }
  const double signal =
      (n * ordered_sum(std::move(products)) - ordered_sum(std::move(weighted))) / (n * (n - 1));
  return {.signal = signal,
          .sample_noise =
              (ordered_sum(std::move(squares)) - n * signal) / ordered_sum(std::move(inverse))};
}

NoiseEstimate estimate_noise_of_pairs(std::span<const SliceSums> sums,
                                      std::span<const RankBatch> batches) {
  EQT_CHECK(!sums.empty() && sums.size() == batches.size(), "{} sums of {} ranks", sums.size(),
            batches.size());
  const auto n = static_cast<double>(sums.size());
  std::vector<double> changes, products, samples;
  for (std::size_t i = 0; i < sums.size(); ++i) {
    const double weight = batches[i].weight;
    changes.push_back(weight * weight * sums[i].change);
    products.push_back(weight * sums[i].product);
    samples.push_back(batches[i].samples);
  }
  const double noise = ordered_sum(std::move(changes)) / (n * n);
  return {.signal = ordered_sum(std::move(products)) / n - noise,
          .sample_noise = noise * ordered_sum(std::move(samples))};
}

double added_noise(const SliceError& slice, double signal, double batch_noise, int ranks,
                   int quantisations) {
  EQT_CHECK(ranks >= 1 && quantisations >= 1, "{} ranks, {} quantisations", ranks, quantisations);
  const double first = slice.error / ranks;
  if (quantisations == 1 || slice.square <= 0) return first;
  // Estimates may be negative, a square cannot be.
  const double mean_square = std::max(signal + batch_noise, 0.0) + first;
  return first + (quantisations - 1) * (slice.error / slice.square) * mean_square;
}

}  // namespace eqt::adaptation
