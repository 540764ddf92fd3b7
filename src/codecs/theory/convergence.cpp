// SPDX-License-Identifier: Apache-2.0
#include "theory/convergence.hpp"

#include <algorithm>
#include <cmath>

#include "codec/levels/ieee_math.hpp"

namespace eqt::theory {
namespace {

/// The step up to `largest` with the least bound, which has one minimum.
template <typename Bound>
double best_step(const Bound& bound, double largest) {
  const double log_step = codec::golden_section([&](double x) { return bound(std::exp(x)); },
                                                std::log(largest) - 60, std::log(largest));
  const double inside = std::exp(log_step);
  return bound(largest) <= bound(inside) ? largest : inside;
}

}  // namespace

double mean_variance(const Problem& problem, double compressor_variance) {
  return (problem.noise + compressor_variance * problem.second_moment) / problem.ranks;
}

Guarantee convex_guarantee(const Problem& problem, double compressor_variance, double steps) {
  const double s = mean_variance(problem, compressor_variance), r = problem.radius;
  const double inverse_gamma = std::sqrt(s * steps / 2) / r;
  return {.bound = r * std::sqrt(2 * s / steps) + problem.smoothness * r * r / steps,
          .step_size = 1 / (problem.smoothness + inverse_gamma)};
}

Guarantee nonconvex_guarantee(const Problem& problem, double compressor_variance, double steps) {
  const double s = mean_variance(problem, compressor_variance);
  const double product = 2 * problem.smoothness * problem.excess;
  double step = 1 / problem.smoothness;
  if (s > 0)
    step = std::min(step, std::sqrt(2 * problem.excess / (problem.smoothness * s * steps)));
  return {.bound = product / steps + 2 * std::sqrt(s * product / steps), .step_size = step};
}

Guarantee error_feedback_guarantee(const Problem& problem, double compressor_error, double steps) {
  const double smoothness = problem.smoothness, kept = 1 - compressor_error;
  const double memory = 4 * compressor_error * problem.second_moment / (kept * kept);
  const auto bound = [&](double h) {
    return (2 * problem.excess / (h * steps) + smoothness * h * problem.noise / problem.ranks +
            smoothness * smoothness * h * h * memory) /
           (1 - smoothness * h);
  };
  const double step = best_step(bound, 1 / (2 * smoothness));
  return {.bound = bound(step), .step_size = step};
}

Guarantee heavy_ball_guarantee(const Problem& problem, double compressor_variance, double momentum,
                               double steps) {
  const double s = mean_variance(problem, compressor_variance), rest = 1 - momentum;
  const double smoothness = problem.smoothness, excess = problem.excess;
  double step = rest * rest / ((1 + momentum) * smoothness);
  if (s > 0) step = std::min(step, rest * std::sqrt(2 * rest * excess / (smoothness * s * steps)));
  return {.bound = 2 * rest * excess / (step * steps) + smoothness * step * s / (rest * rest),
          .step_size = step};
}

Guarantee convex_momentum_guarantee(const Problem& problem, double compressor_variance,
                                    double momentum, bool nesterov, double steps) {
  const double squares =
      problem.gradient * problem.gradient + mean_variance(problem, compressor_variance);
  const double weight = 1 + (nesterov ? 2 * momentum : 0), rest = 1 - momentum;
  // The constant C of the step C / sqrt(T + 1) that makes the last two terms equal.
  const double constant = rest * problem.radius / std::sqrt(weight * squares);
  return {.bound = momentum * problem.excess / (rest * (steps + 1)) +
                   problem.radius * std::sqrt(weight * squares / (steps + 1)),
          .step_size = constant / std::sqrt(steps + 1)};
}

double steps_to(const std::function<double(double)>& bound, double target) {
  double enough = 1;
  while (enough < kMaxSteps && bound(enough) > target) enough *= 2;
  if (enough >= kMaxSteps) return kMaxSteps;
  double few = enough / 2;  // 0.5: fewer than one step
  while (enough - few > std::max(0.5, 1e-15 * enough)) {
    const double middle = (few + enough) / 2;
    (bound(middle) > target ? few : enough) = middle;
  }
  // Whole steps: the bisection ends within one of them, above 2^53 within rounding.
  const double below = std::floor(enough);
  return below >= 1 && bound(below) <= target ? below : std::ceil(enough);
}

Guarantee gossip_guarantee(const Problem& problem, const Mixing& mixing, double heterogeneity,
                           double compressor_variance, double steps) {
  const double gap = 1 - mixing.contraction, n = problem.ranks, smoothness = problem.smoothness;
  const double e = compressor_variance, b = problem.second_moment;
  const double spread = 2 / gap * (2 * heterogeneity / gap + problem.noise + 2 * e * b);
  const auto bound = [&](double h) {
    const double consensus = h * h * spread;
    return 2 * problem.excess / (h * steps) + smoothness * h * problem.noise / n +
           smoothness * smoothness * consensus +
           2 * smoothness * e / (h * n) *
               (mixing.distance * mixing.distance * consensus + h * h * b);
  };
  // Convex in h: a / h + b h + c h^2.
  const double step = best_step(bound, std::min(1.0, gap / (2 * std::sqrt(2.0))) / smoothness);
  return {.bound = bound(step), .step_size = step};
}

double largest_gossip_variance(const Mixing& mixing) {
  return (1 - mixing.contraction) / (8 * mixing.distance * mixing.distance);
}

double published_gossip_variance(const Mixing& mixing) {
  const double gap = 1 - mixing.contraction;
  return gap * gap / (4 * mixing.distance * mixing.distance);
}

ChocoRate choco_rate(const Mixing& mixing, double contraction_of_compressor) {
  const double gap = 1 - mixing.contraction, w = contraction_of_compressor;
  const double beta2 = mixing.distance * mixing.distance;
  return {
      .gamma = gap * gap * w / (16 * gap + gap * gap + 4 * beta2 + 2 * gap * beta2 - 8 * gap * w),
      .factor = 1 - gap * gap * w / 82};
}

double published_d_psgd(const Problem& problem, double steps) {
  return 8 * problem.excess * problem.smoothness / steps +
         (8 * problem.excess + 4 * problem.smoothness) *
             std::sqrt(problem.noise / (steps * problem.ranks));
}

}  // namespace eqt::theory
