// SPDX-License-Identifier: Apache-2.0
// Chooses the elasticity that a config leaves open.
//
// Source   sinh: the minimax table of the dual worst case (derived in docs/compressors.md, "Level
//          tables")
// Symbols  n nonzero levels, d values per bucket; elasticity: theta of sinh, p of exponential, mu
//          of mulaw

#pragma once

#include <cstddef>

#include "codec/levels/levels.hpp"
#include "codec/options.hpp"

namespace eqt::codec {

/// Worst-case variance of sinh levels under the L2 norm: sinh^2(theta/2) (1 + d / sinh^2(n theta)).
double sinh_worst_case_l2(int n, std::size_t d, double theta);

/// The theta with the smallest worst case. L2: golden section of the closed form; maximum norm:
/// asinh(sqrt(d - 1)) / n, optimal among all tables of n levels.
double optimal_theta(int n, std::size_t d, Norm norm);

/// The p of exponential levels with the smallest worst case.
double optimal_p(int n, std::size_t d, Norm norm);

/// The mu of mu-law levels with the smallest worst case.
double optimal_mu(int n, std::size_t d, Norm norm);

/// The elasticity of a family with the smallest worst case: one of the above; theta for
/// LevelFamily::adaptive, which starts from sinh levels.
/// @pre family is not LevelFamily::general
double optimal_elasticity(LevelFamily family, int n, std::size_t d, Norm norm);

/// Averages over a bucket of independent Gaussian values.
struct GaussianCost {
  double variance = 0;      // E|Q(v) - v|^2 / E|v|^2
  double sparse_bits = 0;   // bits per value of container W1, without the norm
  double dense_bits = 0;    // W2
  double huffman_bits = 0;  // W3, code table included
  double rans_bits = 0;     // W4, frequencies and states included
  /// Bits per value of the container that `coding` chooses, with the 32 bits of the norm.
  double bits(Coding coding, std::size_t d) const;
};

/// Values are |N(0, sigma^2)| cut at 1 after scaling: sigma^2 = 1/d for the L2 norm, and
/// 1 / (2 ln d), the extreme-value scale, for the maximum norm.
GaussianCost gaussian_cost(std::span<const double> levels, std::size_t d, Norm norm);

/// The elasticity that minimises (1 + variance) * bits for Gaussian buckets: proportional to the
/// traffic to a given accuracy when noise dominates.
double cheapest_elasticity(LevelFamily family, int n, std::size_t d, Norm norm, Coding coding);

/// The table of a family: theta for sinh and adaptive (its start), p for exponential, mu for mulaw.
/// @pre family is not LevelFamily::general
Levels make_levels(LevelFamily family, int n, double elasticity);

}  // namespace eqt::codec
