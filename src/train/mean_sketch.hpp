// SPDX-License-Identifier: Apache-2.0
// How far an applied mean is from the exact one, which no rank knows.
//
// Source   N. Alon, Y. Matias, M. Szegedy, STOC 1996 (sums with random signs); M. Charikar, K.
//          Chen, M. Farach-Colton, ICALP 2002 (each value in one of many sums)
// Symbols  v the values, k = 256 sums y_b = sum of s_i v_i over i = b mod k, s_i = +-1 at random
// Error    E sum y_b^2 = |v|^2, and its variance is at most 2 sum_b |v_b|^4: about (2/k) |v|^4
//          where values are spread evenly. Exact for d <= k.
//
// Sums of different ranks' values add up to the sums of the added values. So 2 KiB from each rank
// tell what the exact mean would need 4d bytes for.

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "core/layout.hpp"

namespace eqt::train {

struct MeanSketch {
  static constexpr std::size_t kSums = 256;
  using Sums = std::array<double, kSums>;

  Sums exact = {};    // of what this process wants averaged; to be added up over ranks
  Sums applied = {};  // of the mean that is applied, the same on every rank

  /// |applied - mean|^2 / |mean|^2, once `exact` has the sum over all ranks; nothing where the mean
  /// is zero.
  std::optional<double> relative_error(int ranks) const;
};

/// sums += those of flat[begin, end). All ranks draw the same signs, others in each step.
void add_to_sketch(std::uint64_t run_seed, StepId step, std::span<const float> flat,
                   std::size_t begin, std::size_t end, MeanSketch::Sums& sums);

}  // namespace eqt::train
