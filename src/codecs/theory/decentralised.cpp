// SPDX-License-Identifier: Apache-2.0
#include "theory/decentralised.hpp"

#include <algorithm>
#include <cmath>

#include "codec/levels/ieee_math.hpp"

namespace eqt::theory {

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
  const double largest = std::min(1.0, gap / (2 * std::sqrt(2.0))) / smoothness;
  const double log_step = codec::golden_section([&](double x) { return bound(std::exp(x)); },
                                                std::log(largest) - 60, std::log(largest));
  const double inside = std::exp(log_step);
  const double step = bound(largest) <= bound(inside) ? largest : inside;
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
