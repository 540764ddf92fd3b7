// SPDX-License-Identifier: Apache-2.0
// The relative variance E|Q(v) - v|^2 / |v|^2 of values that are divided into buckets, exact and as
// bounds.
//
// Source   level codecs: sum over values of (l_(j+1) - r)(r - l_j) norm^2, see
//          codec/levels/levels.hpp; natural compression: Horvath et al., arXiv:1905.10988

#pragma once

#include <optional>
#include <span>

#include "codec/message.hpp"
#include "theory/level_scheme.hpp"

namespace eqt::theory {

/// Sums over values; absolute, so that buckets, tensors and ranks can be added.
struct VarianceSums {
  double squares = 0;     // |v|^2
  double exact = 0;       // E|Q(v) - v|^2
  double worst_case = 0;  // of all vectors whose buckets have these norms
  double theorem2 = 0;
  double nonzeros = 0;  // E[indices that are not 0]
  std::size_t values = 0;

  VarianceSums& operator+=(const VarianceSums& other);
  /// Relative to |v|^2; 0 for zeros.
  double exact_ratio() const { return squares > 0 ? exact / squares : 0; }
  double worst_case_ratio() const { return squares > 0 ? worst_case / squares : 0; }
  double theorem2_ratio() const { return squares > 0 ? theorem2 / squares : 0; }
};

/// The sums of one segment. Shorter buckets have smaller bounds.
VarianceSums level_variance(const LevelScheme& scheme, std::span<const float> values);

/// Values that are sent as float32 have no variance.
VarianceSums raw_variance(std::span<const float> values);

/// E|Q(v) - v|^2 / |v|^2 of natural compression: each value is between two powers of two.
double natural_variance(std::span<const float> values);

}  // namespace eqt::theory
