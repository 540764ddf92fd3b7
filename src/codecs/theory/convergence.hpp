// SPDX-License-Identifier: Apache-2.0
// Bounds of the steps that training needs, and the bits that it sends in them.
//
// M ranks average independent unbiased gradients that were quantised with E|Q(g) - g|^2 <= e |g|^2.
// With E|g - grad f|^2 <= sigma^2 and E|g|^2 <= B the mean has a variance of at most (sigma^2 + e
// B) / M around grad f. Quantisation changes nothing else in the theorems.
//
// Source   convex: S. Bubeck, "Convex Optimization", 2015, theorem 6.3; used by Alistarh et al.,
//          NeurIPS 2017, theorem 3.4
//          non-convex: derived in docs/theory.md; the form of Ghadimi and Lan, SIAM J. Optim.
//          2013
//          heavy ball, non-convex: H. Yu, R. Jin, S. Yang, ICML 2019
//          momentum, convex: T. Yang, Q. Lin, Z. Li, arXiv:1604.03257 (constants not compared with
//          its text)
// Symbols  L smoothness; D = f(x_0) - f*; R >= |x_0 - x*|; e compressor's variance bound

#pragma once

#include <cstdint>
#include <functional>
#include <string_view>

namespace eqt::theory {

/// The problem's constants. 0 means that a number was not given.
struct Problem {
  double smoothness = 0;     // L
  double radius = 0;         // R, of the set that is projected onto
  double excess = 0;         // D
  double noise = 0;          // sigma^2
  double second_moment = 0;  // B
  double gradient = 0;       // G >= |grad f|, for momentum on convex functions
  int ranks = 1;             // M
};

/// The compressor's variance and bits.
struct Quantised {
  double variance = 0;       // e; 0: exact
  double bits_per_step = 0;  // of one rank's message
};

/// (sigma^2 + e B) / M.
double mean_variance(const Problem& problem, double compressor_variance);

/// A bound of the theorem's quantity after `steps` steps with its best constant step.
struct Guarantee {
  double bound = 0;
  double step_size = 0;
};

/// E f(mean of x_1 ... x_T) - f* <= R sqrt(2 s / T) + L R^2 / T, s the mean's variance; steps of
/// 1 / (L + 1 / gamma), gamma = (R / sqrt(s)) sqrt(2 / T), projected onto a ball of radius R.
/// Conditions: f convex, L > 0, R > 0.
Guarantee convex_guarantee(const Problem& problem, double compressor_variance, double steps);

/// (1 / T) sum E|grad f|^2 <= 2 L D / T + 2 sqrt(2 L D s / T), steps of
/// min(1 / L, sqrt(2 D / (L s T))). Conditions: L > 0, D > 0.
Guarantee nonconvex_guarantee(const Problem& problem, double compressor_variance, double steps);

/// Heavy ball: (1 / T) sum E|grad f|^2 <= 2 (1 - b) D / (h T) + L h s / (1 - b)^2 for
/// h <= (1 - b)^2 / ((1 + b) L). Conditions: L > 0, D > 0, 0 <= b < 1.
Guarantee heavy_ball_guarantee(const Problem& problem, double compressor_variance, double momentum,
                               double steps);

/// Momentum on a convex function: E f - f* <= b D / ((1 - b)(T + 1)) + R sqrt((1 + 2 a b)(G^2 + s)
/// / (T + 1)), a = 0 heavy ball, a = 1 Nesterov. Conditions: D, R, G > 0, 0 <= b < 1.
Guarantee convex_momentum_guarantee(const Problem& problem, double compressor_variance,
                                    double momentum, bool nesterov, double steps);

/// More steps have no practical meaning.
inline constexpr double kMaxSteps = 1e18;

/// The smallest whole number of steps whose bound is at most `target`; kMaxSteps if there is none.
/// @pre bound(T) does not grow with T
double steps_to(const std::function<double(double)>& bound, double target);

}  // namespace eqt::theory
