// SPDX-License-Identifier: Apache-2.0
// Mixtures of normal distributions truncated to [0, 1]: the model of normalised magnitudes to which
// levels are fitted. Closed forms from basic IEEE operations only, so that every machine computes
// the same levels.
//
// Source   F. Faghri et al., "Adaptive Gradient Quantization for Data-Parallel SGD", NeurIPS 2020,
//          arXiv:2010.12460, section 3
// Symbols  r in [0, 1]; phi, Phi: density and distribution of the standard normal

#pragma once

#include <span>
#include <vector>

namespace eqt::codec {

/// Density of the standard normal at x, and the mass above x. Relative error of the mass below
/// 1e-12; both are 0 beyond 38.
struct NormalTail {
  double density = 0;
  double above = 0;
};
NormalTail normal_tail(double x) noexcept;

/// Integrals of 1, (r - a) and (r - a)^2 over [a, b].
struct CellMoments {
  double mass = 0, first = 0, second = 0;
};

/// Normal(mean, deviation^2) truncated to [0, 1].
struct NormalComponent {
  double weight = 1;  // share of the mixture; any positive scale
  double mean = 0;
  double deviation = 1;  // > 0
};

class NormalMixture {
 public:
  /// @pre at least one component; weights and deviations are positive and finite, and each
  /// component has mass in [0, 1]
  explicit NormalMixture(std::vector<NormalComponent> components);

  /// @pre 0 <= a <= b <= 1
  CellMoments moments(double a, double b) const noexcept;
  double mass(double a, double b) const noexcept;
  /// Mass in [a, b] and density at a.
  struct MassAbove {
    double mass = 0, density = 0;
  };
  MassAbove mass_above(double a, double b) const noexcept;
  /// The r below which the mass is `share`, by bisection.
  double quantile(double share) const noexcept;

 private:
  std::vector<NormalComponent> components_;  // weight: share / mass in [0, 1]
};

}  // namespace eqt::codec
