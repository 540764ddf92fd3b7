// SPDX-License-Identifier: Apache-2.0
#include "sync/mean_sketch.hpp"

#include <algorithm>

#include "core/random.hpp"

namespace eqt::sync {

std::optional<double> MeanSketch::relative_error(int ranks) const {
  double error = 0, square = 0;
  for (std::size_t b = 0; b < kSums; ++b) {
    const double mean = exact[b] / ranks;
    error += (applied[b] - mean) * (applied[b] - mean);
    square += mean * mean;
  }
  if (square <= 0) return {};
  return error / square;
}

void add_to_sketch(std::uint64_t run_seed, StepId step, std::span<const float> flat,
                   std::size_t begin, std::size_t end, MeanSketch::Sums& sums) {
  constexpr std::size_t kBits = 32;
  const RandomStream stream(make_key(run_seed, step, 0, RandomPurpose::quality));
  for (std::size_t i = begin; i < end;) {
    const std::uint32_t signs = stream.bits(static_cast<std::uint32_t>(i / kBits));
    const std::size_t stop = std::min(end, (i / kBits + 1) * kBits);
    for (; i < stop; ++i) {
      const auto value = static_cast<double>(flat[i]);
      sums[i % MeanSketch::kSums] += (signs >> (i % kBits) & 1) != 0 ? -value : value;
    }
  }
}

}  // namespace eqt::sync
