// SPDX-License-Identifier: Apache-2.0
// Estimates the distance of the applied mean from the exact mean, which no rank knows.
//
// Source   N. Alon, Y. Matias, M. Szegedy, STOC 1996 (sums with random signs); M. Charikar, K.
//          Chen, M. Farach-Colton, ICALP 2002 (each value in one of many sums)
// Symbols  v the values, k = 256 sums y_b = sum of s_i v_i over i = b mod k, s_i = +-1 at random
// Error    E sum y_b^2 = |v|^2, and its variance is at most 2 sum_b |v_b|^4: about (2/k) |v|^4 if
//          values are spread evenly. Exact for d <= k.
//
// The sums are linear, so those of the ranks add up to the sums of the mean: 2 KiB per rank instead
// of 4d bytes for the exact mean.

#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "core/layout.hpp"
#include "core/random.hpp"

namespace eqt::sync {

struct MeanSketch {
  static constexpr std::size_t kSums = 256;
  using Sums = std::array<double, kSums>;

  Sums exact = {};    // of this process's values; to be summed over ranks
  Sums applied = {};  // of the applied mean, the same on every rank

  /// |applied - mean|^2 / |mean|^2, when `exact` is the sum over all ranks; empty if the mean is
  /// zero.
  std::optional<double> relative_error(int ranks) const;
};

inline std::optional<double> MeanSketch::relative_error(int ranks) const {
  double error = 0, square = 0;
  for (std::size_t b = 0; b < kSums; ++b) {
    const double mean = exact[b] / ranks;
    error += (applied[b] - mean) * (applied[b] - mean);
    square += mean * mean;
  }
  if (square <= 0) return {};
  return error / square;
}

/// sums += those of flat[begin, end). The signs are the same on all ranks and differ in each step.
inline void add_to_sketch(std::uint64_t run_seed, StepId step, std::span<const float> flat,
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
