// SPDX-License-Identifier: Apache-2.0
// Bounds like those of convergence.hpp, for gossip: every rank has its own model and mixes it with
// those of its neighbours.
//
// Source   derived in docs/theory.md, for models that are sent uncompressed and for differences
//          that an unbiased compressor quantises (DCD-PSGD: H. Tang et al., NeurIPS 2018,
//          arXiv:1803.06443); CHOCO: A. Koloskova, S. Stich, M. Jaggi, ICML 2019, arXiv:1902.00340
// Symbols  W mixing matrix, symmetric and doubly stochastic; rho = |W - J|_2 < 1; mu = |I - W|_2;
//          z^2 >= (1/n) sum |grad f_i - grad f|^2; e the compressor's variance bound

#pragma once

#include "theory/convergence.hpp"

namespace eqt::theory {

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
