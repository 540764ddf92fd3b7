// SPDX-License-Identifier: Apache-2.0
// Bounds of the steps that training needs, and the bits that it sends in them.
//
// M ranks average independent unbiased gradients that were quantised with E|Q(g) - g|^2 <= e |g|^2.
// With E|g - grad f|^2 <= sigma^2 and E|g|^2 <= B the mean has a variance of at most (sigma^2 + e
// B) / M around grad f. Quantisation changes nothing else in the theorems. With gossip every rank
// has its own model and mixes it with those of its neighbours.
//
// Source   convex: S. Bubeck, "Convex Optimization", 2015, theorem 6.3; used by Alistarh et al.,
//          NeurIPS 2017, theorem 3.4
//          non-convex: derived in docs/theory.md; the form of Ghadimi and Lan, SIAM J. Optim.
//          2013
//          heavy ball, non-convex: H. Yu, R. Jin, S. Yang, ICML 2019
//          error feedback: S. P. Karimireddy et al., ICML 2019, arXiv:1901.09847, theorem II; for M
//          ranks with a memory each derived in docs/theory.md
//          momentum, convex: T. Yang, Q. Lin, Z. Li, arXiv:1604.03257 (constants not compared with
//          its text)
//          gossip: derived in docs/theory.md, for models that are sent uncompressed and for
//          differences that an unbiased compressor quantises (DCD-PSGD: H. Tang et al., NeurIPS
//          2018, arXiv:1803.06443); CHOCO: A. Koloskova, S. Stich, M. Jaggi, ICML 2019,
//          arXiv:1902.00340
// Symbols  L smoothness; D = f(x_0) - f*; R >= |x_0 - x*|; e compressor's variance bound; W mixing
//          matrix, symmetric and doubly stochastic; rho = |W - J|_2 < 1; mu = |I - W|_2;
//          z^2 >= (1/n) sum |grad f_i - grad f|^2

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

/// Error feedback, with a compressor of E|C(x) - x|^2 <= w |x|^2: (1 / T) sum E|grad f|^2 <=
/// (2 D / (h T) + L h sigma^2 / M + 4 L^2 h^2 w B / (1 - w)^2) / (1 - L h), minimised over
/// h <= 1 / (2 L). Conditions: L > 0, D > 0, 0 <= w < 1, B known if w > 0.
Guarantee error_feedback_guarantee(const Problem& problem, double compressor_error, double steps);

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

struct Mixing {
  double contraction = 0;  // rho
  double distance = 0;     // mu
};

/// (1/T) sum E|grad f(mean model)|^2 after `steps` steps x <- W x - h g, each sent difference
/// quantised. With c = 2 h^2 / (1 - rho) (2 z^2 / (1 - rho) + sigma^2 + 2 e B) the bound is
///   2 D / (h T) + L h sigma^2 / n + L^2 c + (2 L e / (h n)) (mu^2 c + h^2 B),
/// minimised over h <= min(1 / L, (1 - rho) / (2 sqrt(2) L)).
/// Conditions: rho < 1, e <= largest_gossip_variance(), B known if e > 0.
Guarantee gossip_guarantee(const Problem& problem, const Mixing& mixing, double heterogeneity,
                           double compressor_variance, double steps);

/// (1 - rho) / (8 mu^2): the largest e for which gossip_guarantee() holds.
double largest_gossip_variance(const Mixing& mixing);
/// (1 - rho)^2 / (4 mu^2), DCD-PSGD's own condition (strict), for comparison.
double published_gossip_variance(const Mixing& mixing);

/// CHOCO's consensus step gamma, and the factor of the consensus error per round, 1 - gap^2 w / 82;
/// w = 1 - |C(x) - x|^2 / |x|^2 of a contraction.
struct ChocoRate {
  double gamma = 0;
  double factor = 1;
};
ChocoRate choco_rate(const Mixing& mixing, double contraction_of_compressor);

/// Lian et al., NeurIPS 2017, arXiv:1705.09056, corollary 2, for enough steps that its other terms
/// vanish: 8 D L / T + (8 D + 4 L) sigma / sqrt(T n). An estimate.
double published_d_psgd(const Problem& problem, double steps);

}  // namespace eqt::theory
