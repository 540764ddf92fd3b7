// SPDX-License-Identifier: Apache-2.0
// Which consensus steps contract when mixed models are applied late: modes of quadratic losses, as
// docs/algorithms.md has them.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <initializer_list>

#include "support/catch.hpp"

namespace {

/// A mode of the models' differences: all ranks' losses have this curvature along it, and W
/// multiplies it by lambda.
struct Mode {
  double rate_curvature = 0.1, momentum = 0, lambda = 0;
};

struct Rounds {
  int local_steps = 1, delay = 1;
};

/// The factor of the mode in a round of late gossip, as its growth over many.
double growth(const Mode& mode, const Rounds& rounds, double gamma) {
  constexpr int kRounds = 400;
  double x = 1, m = 0.3, log_growth = 0;
  for (int round = 0; round < kRounds; ++round) {
    const double sent = x;
    for (int step = 1; step <= rounds.local_steps; ++step) {
      m = mode.momentum * m + mode.rate_curvature * x;
      x -= m;
      if (step == rounds.delay) x += gamma * (mode.lambda - 1) * sent;
    }
    const double norm = std::hypot(x, m);
    if (norm == 0) return 0;
    if (round >= kRounds / 2) log_growth += std::log(norm);
    x /= norm;
    m /= norm;
  }
  return std::exp(log_growth / (kRounds - kRounds / 2));
}

/// The largest gamma, in steps of 0.02, up to which modes of all curvatures contract.
double largest_step(double momentum, double lambda, const Rounds& rounds) {
  double largest = 0;
  for (int step = 1; step <= 50; ++step) {
    const double gamma = 0.02 * step;
    for (double curvature = 0.0005; curvature <= 0.5; curvature *= 1.03)
      if (growth({curvature, momentum, lambda}, rounds, gamma) > 1.0005) return largest;
    largest = gamma;
  }
  return largest;
}

}  // namespace

TEST_CASE("with D = H a round multiplies a mode by b + gamma (lambda - 1)", "[late]") {
  for (const double curvature : {0.05, 0.4, 0.9})
    for (const double lambda : {-1.0, -1.0 / 3, 0.5})
      for (const int steps : {1, 2, 5}) {
        const double b = std::pow(1 - curvature, steps);
        for (const double gamma : {0.2, 0.5, 1.0})
          CHECK(growth({curvature, 0, lambda}, {steps, steps}, gamma) ==
                Approx(std::abs(b + gamma * (lambda - 1))).epsilon(0.02).margin(1e-9));
      }
}

TEST_CASE("half a step contracts with every delay where local steps do not swing", "[late]") {
  for (const double curvature : {0.01, 0.1, 0.5, 1.0})
    for (const double lambda : {-1.0, -0.6, -1.0 / 3, 0.0, 0.5, 0.9})
      for (const int steps : {1, 2, 4, 8})
        for (int delay = 1; delay <= steps; ++delay)
          CHECK(growth({curvature, 0, lambda}, {steps, delay}, 0.5) < 1.0005);
  // A whole step does not.
  CHECK(growth({0.5, 0, -1.0 / 3}, {8, 8}, 1) > 1.2);
}

TEST_CASE("a delay of half a round contracts where one of a whole round does not", "[late]") {
  // The reason for what synchronization.delay "auto" is, for steps with momentum 0.9.
  for (const int steps : {4, 8}) {
    double half = 0, whole = 0;
    for (double curvature = 0.0005; curvature <= 0.5; curvature *= 1.1) {
      half = std::max(half, growth({curvature, 0.9, 0}, {steps, steps / 2}, 0.5));
      whole = std::max(whole, growth({curvature, 0.9, 0}, {steps, steps}, 0.5));
    }
    CHECK(half < 1.0005);
    CHECK(whole > 1.05);
  }
}

TEST_CASE("the largest steps that contract", "[.][late-steps]") {
  for (const auto& [momentum, lambda] : {std::pair{0.0, -1.0 / 3}, std::pair{0.0, 0.0},
                                         std::pair{0.9, -1.0 / 3}, std::pair{0.9, 0.0}}) {
    fmt::print("momentum {}, lambda {:.2f}:", momentum, lambda);
    for (const int steps : {1, 2, 4, 8, 16})
      for (const int delay : {1, steps / 2, steps})
        if (delay > 0)
          fmt::print("  H {} D {}: {:.2f}", steps, delay,
                     largest_step(momentum, lambda, {steps, delay}));
    fmt::print("\n");
  }
}
