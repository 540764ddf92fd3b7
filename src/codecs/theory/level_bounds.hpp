// SPDX-License-Identifier: Apache-2.0
// Bounds of a level table for every vector, and the vector that comes nearest to the bound.
//
// Source   theorem 2 of F. Faghri et al., NeurIPS 2020, arXiv:2010.12460, with the infimum in
//          closed form; the dual of the worst case: docs/compressors.md, "Level tables"
// Symbols  R largest quotient of neighbouring levels; A = l_1 sqrt(d); phi(A) = A^2/4 up to 2, then
//          A - 1; tau_j = l_j + l_(j+1)

#pragma once

#include <cstddef>
#include <vector>

#include "theory/level_scheme.hpp"

namespace eqt::theory {

struct LevelBounds {
  double ratio = 1;       // R; 1 for a single level
  double smallest = 0;    // A
  double phi = 0;         // phi(A)
  double theorem2 = 0;    // (R - 1)^2 / (4 R) + phi(A)
  double worst_case = 0;  // the best bound known; under the maximum norm it is reached
};

/// Returns the bounds for vectors of at most `scheme.bucket_size` values.
LevelBounds level_bounds(const LevelScheme& scheme);

/// A vector of two magnitudes: `heads` values of `head`, then `bodies` of `body`, scaled to a norm
/// of 1.
struct AdversarialVector {
  std::size_t heads = 0;
  double head = 0;
  std::size_t bodies = 0;
  double body = 0;
  double ratio = 0;  // E|Q(v) - v|^2 / |v|^2, exact

  /// The values in float32, with alternating signs.
  std::vector<float> values() const;
};

/// Maximum norm: one value of 1 and the others r = tau_j / (2 (1 + e)), which reaches the worst
/// case e. L2: of all splits of d values into two cells the one with the largest variance; it is
/// below the dual bound only because counts are integers.
AdversarialVector adversarial_vector(const LevelScheme& scheme);

/// Variance of rounding r, (l_(j+1) - r)(r - l_j) in its cell.
double rounding_variance(const codec::Levels& levels, double r);

}  // namespace eqt::theory
