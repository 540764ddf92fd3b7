// SPDX-License-Identifier: Apache-2.0
// Draws from the Gamma distribution; several of them, normalised, are a Dirichlet draw.

#pragma once

#include <cstdint>

#include "core/random.hpp"

namespace eqt {

/// The sequence of random numbers of one key, for rejection sampling, which needs an unknown number
/// of them. At most 2^32 words.
class RandomSequence {
 public:
  explicit RandomSequence(const RandomKey& key) noexcept : stream_(key) {}

  /// Uniform in (0, 1), 52 bits. Neither end can be drawn, so the logarithm is finite.
  double uniform() noexcept;

  /// Mean 0, variance 1 (G. E. P. Box, M. E. Muller, Ann. Math. Stat. 29, 1958).
  double normal() noexcept;

 private:
  RandomStream stream_;
  std::uint32_t next_ = 0;
};

/// The logarithm of a draw from Gamma(shape, 1), shape > 0. For a small shape the draw itself is
/// too small for a double. G. Marsaglia, W. W. Tsang, "A simple method for generating gamma
/// variables", ACM TOMS 26, 2000; for shapes below 1, Gamma(shape) = Gamma(shape + 1) U^(1 /
/// shape).
double log_gamma_draw(double shape, RandomSequence& draws) noexcept;

}  // namespace eqt
