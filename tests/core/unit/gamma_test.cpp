// SPDX-License-Identifier: Apache-2.0
#include "core/gamma.hpp"

#include <cmath>

#include "support/catch.hpp"

using namespace eqt;

namespace {

constexpr int kDraws = 200000;

RandomKey key(std::uint64_t step) { return {.run_seed = 3, .step = step}; }

}  // namespace

TEST_CASE("a sequence is a pure function of its key and stays inside (0, 1)", "[gamma]") {
  RandomSequence a(key(1)), b(key(1)), other(key(2));
  int equal = 0;
  for (int i = 0; i < 1000; ++i) {
    const double u = a.uniform();
    REQUIRE(u == b.uniform());
    REQUIRE(u > 0);
    REQUIRE(u < 1);
    equal += u == other.uniform();
  }
  REQUIRE(equal == 0);
}

TEST_CASE("normal draws have the moments 0, 1, 0, 3", "[gamma]") {
  RandomSequence draws(key(3));
  double sum = 0, squares = 0, cubes = 0, fourths = 0;
  for (int i = 0; i < kDraws; ++i) {
    const double x = draws.normal();
    sum += x;
    squares += x * x;
    cubes += x * x * x;
    fourths += x * x * x * x;
  }
  // Five standard errors; the variances of x, x^2, x^3 and x^4 are 1, 2, 15 and 96.
  const auto within = [](double variance) { return 5 * std::sqrt(variance / kDraws); };
  CHECK(std::abs(sum / kDraws) < within(1));
  CHECK(std::abs(squares / kDraws - 1) < within(2));
  CHECK(std::abs(cubes / kDraws) < within(15));
  CHECK(std::abs(fourths / kDraws - 3) < within(96));
}

TEST_CASE("Gamma draws have mean and variance of their shape", "[gamma]") {
  for (const double shape : {0.05, 0.1, 0.5, 1.0, 1.7, 10.0, 1000.0}) {
    CAPTURE(shape);
    RandomSequence draws(key(4));
    double sum = 0, squares = 0;
    for (int i = 0; i < kDraws; ++i) {
      const double x = std::exp(log_gamma_draw(shape, draws)) - shape;
      sum += x;
      squares += x * x;
    }
    // The fourth central moment is 3 shape^2 + 6 shape.
    CHECK(std::abs(sum / kDraws) < 5 * std::sqrt(shape / kDraws));
    CHECK(std::abs(squares / kDraws - shape) <
          5 * std::sqrt((2 * shape * shape + 6 * shape) / kDraws));
  }
}

TEST_CASE("the mean logarithm of a Gamma draw is the digamma function", "[gamma]") {
  // psi(1) = -gamma and psi(1/2) = -gamma - 2 log 2; psi' is pi^2 / 6 and pi^2 / 2.
  constexpr double kEuler = 0.57721566490153286;
  constexpr double kPi2 = 9.8696044010893586;
  const auto mean_logarithm = [](double shape) {
    RandomSequence draws(key(5));
    double sum = 0;
    for (int i = 0; i < kDraws; ++i) sum += log_gamma_draw(shape, draws);
    return sum / kDraws;
  };
  CHECK(std::abs(mean_logarithm(1) + kEuler) < 5 * std::sqrt(kPi2 / 6 / kDraws));
  CHECK(std::abs(mean_logarithm(0.5) + kEuler + 2 * std::log(2)) <
        5 * std::sqrt(kPi2 / 2 / kDraws));
}

TEST_CASE("logarithms of draws are finite for every shape that a double holds", "[gamma]") {
  for (const double shape : {5e-324, 1e-300, 1e-6, 1e9, 1e300}) {
    RandomSequence draws(key(6));
    for (int i = 0; i < 100; ++i) REQUIRE(std::isfinite(log_gamma_draw(shape, draws)));
  }
}

TEST_CASE("normalised Gamma draws have the variance of a Dirichlet share", "[gamma]") {
  // Dir(alpha 1_m): mean 1 / m, variance (1 / m) (1 - 1 / m) / (m alpha + 1).
  constexpr int kShares = 4;
  constexpr double kAlpha = 0.3, kMean = 1.0 / kShares;
  constexpr double kVariance = kMean * (1 - kMean) / (kShares * kAlpha + 1);
  RandomSequence draws(key(7));
  double sum = 0, squares = 0;
  for (int i = 0; i < kDraws; ++i) {
    double first = 0, all = 0;
    for (int j = 0; j < kShares; ++j) {
      const double x = std::exp(log_gamma_draw(kAlpha, draws));
      if (j == 0) first = x;
      all += x;
    }
    const double away = first / all - kMean;
    sum += away;
    squares += away * away;
  }
  CHECK(std::abs(sum / kDraws) < 5 * std::sqrt(kVariance / kDraws));
  // A share lies in [0, 1], so its squared distance from the mean varies by less than 1.
  CHECK(std::abs(squares / kDraws - kVariance) < 5 * std::sqrt(kVariance / kDraws));
}
