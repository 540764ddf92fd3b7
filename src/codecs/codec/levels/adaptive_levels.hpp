// SPDX-License-Identifier: Apache-2.0
// Levels of least expected variance for a given distribution of magnitudes: ALQ's coordinate and
// gradient descent, and AMQ's multiplier.
//
// Source   F. Faghri et al., "Adaptive Gradient Quantization for Data-Parallel SGD", NeurIPS 2020,
//          arXiv:2010.12460, section 3
// Symbols  levels l_0 = 0 < ... < l_n = 1; Psi = sum over cells of the integral of
//          (l_(j+1) - r)(r - l_j) dF, the variance of one value; p the multiplier

#pragma once

#include <span>

#include "codec/levels/levels.hpp"
#include "codec/levels/truncated_normal.hpp"

namespace eqt::codec {

/// Returns true if a LevelTable of these levels can be made, with a margin.
bool fp32_tells_apart(std::span<const double> levels) noexcept;

/// Psi: the variance of rounding one r.
double expected_variance(const NormalMixture& mixture, std::span<const double> levels) noexcept;

/// beta(a, c) = F^-1(F(c) - integral over [a, c] of (r - a)/(c - a) dF): the level between a and c
/// of least Psi. `guess` where the mixture has no mass there; a good guess makes it fast.
/// @pre a < guess < c
double best_between(const NormalMixture& mixture, double a, double c, double guess) noexcept;

/// dPsi/db of a level b whose neighbours are a and c.
double level_slope(const NormalMixture& mixture, double a, double b, double c) noexcept;

/// One sweep of coordinate descent, l_1 first, each between its newest neighbours. Psi never rises.
void sweep_levels(const NormalMixture& mixture, std::span<double> levels) noexcept;

/// One sweep of gradient descent: each level moves by rate |slope|, at most half the way to its
/// nearer neighbour.
void gradient_sweep_levels(const NormalMixture& mixture, std::span<double> levels,
                           double rate) noexcept;

/// The best result of coordinate descent from `start` and from the paper's three starts: quantiles,
/// uniform and exponential levels. Never worse than `start`, and only tables that are distinct in
/// fp32.
Levels adapted_levels(const NormalMixture& mixture, const Levels& start);

/// The interval around zero in AMQ's levels.
enum class Centre {
  zero_level,  // 0, p^(n-1), ..., p, 1: what this project sends
  cell,        // p^n, ..., p, 1 and their negatives, as in the paper: the cell [-p^n, p^n]
};

/// Psi of a multiplier's levels.
double multiplier_variance(const NormalMixture& mixture, int n, double p, Centre centre) noexcept;

/// dPsi/dp.
double multiplier_slope(const NormalMixture& mixture, int n, double p, Centre centre) noexcept;

/// The p of least Psi with a zero level: the best of the paper's eight starts, then golden section
/// between its neighbours. Never worse than `previous`.
double adapted_multiplier(const NormalMixture& mixture, int n, double previous);

}  // namespace eqt::codec
