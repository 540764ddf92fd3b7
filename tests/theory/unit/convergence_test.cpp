// SPDX-License-Identifier: Apache-2.0
// Guarantees of training: closed forms, monotony, and simulations that must stay below them.

#include "theory/convergence.hpp"

#include <cmath>
#include <utility>
#include <vector>

#include "codec/levels/level_design.hpp"
#include "core/gamma.hpp"
#include "support/catch.hpp"

namespace {

using namespace eqt;
using namespace eqt::theory;

const Problem kProblem{.smoothness = 2,
                       .radius = 3,
                       .excess = 5,
                       .noise = 1,
                       .second_moment = 4,
                       .gradient = 2,
                       .ranks = 4};

}  // namespace

TEST_CASE("the mean of M quantised gradients has variance (sigma^2 + e B) / M") {
  CHECK(mean_variance(kProblem, 0.5) == Approx((1 + 0.5 * 4) / 4));
}

TEST_CASE("the convex bound, worked by hand") {
  // s = 0.25; 3 sqrt(2 * 0.25 / 8) + 2 * 9 / 8 = 0.75 + 2.25.
  CHECK(convex_guarantee(kProblem, 0, 8).bound == Approx(3));
  // 1 / gamma = sqrt(s T / 2) / R = 1/3.
  CHECK(convex_guarantee(kProblem, 0, 8).step_size == Approx(1 / (2 + 1.0 / 3)));
}

TEST_CASE("without noise the non-convex bound is that of gradient descent") {
  Problem exact = kProblem;
  exact.noise = 0;
  CHECK(nonconvex_guarantee(exact, 0, 10).bound == Approx(2 * 2 * 5 / 10.0));
  CHECK(nonconvex_guarantee(exact, 0, 10).step_size == Approx(0.5));
}

TEST_CASE("convex momentum without momentum is plain subgradient descent's R G / sqrt(T + 1)") {
  Problem exact = kProblem;
  exact.noise = 0;
  CHECK(convex_momentum_guarantee(exact, 0, 0, false, 35).bound == Approx(3 * 2 / 6.0));
  // 0.5 * 5 / (0.5 * 36) + 3 * 2 * sqrt(1 + 2 * 0.5) / 6.
  CHECK(convex_momentum_guarantee(exact, 0, 0.5, true, 35).bound ==
        Approx(5 / 36.0 + std::sqrt(2.0)));
}

TEST_CASE("steps_to finds the first whole step at or below the target") {
  const auto bound = [](double steps) { return 100 / steps; };
  CHECK(steps_to(bound, 100) == 1);
  CHECK(steps_to(bound, 1000) == 1);
  CHECK(steps_to(bound, 7) == 15);
  CHECK(steps_to(bound, 100.0 / 15) == 15);
  CHECK(steps_to([](double) { return 1.0; }, 0.5) == kMaxSteps);
  // The convex bound as a quadratic in 1 / sqrt(T): a x^2 + b x = target.
  const double a = 18, b = 3 * std::sqrt(0.5), target = 0.01;
  const double x = (std::sqrt(b * b + 4 * a * target) - b) / (2 * a);
  const double steps =
      steps_to([](double t) { return convex_guarantee(kProblem, 0, t).bound; }, target);
  CHECK(std::abs(steps - 1 / (x * x)) <= 1);
  CHECK(convex_guarantee(kProblem, 0, steps).bound <= target);
  CHECK(convex_guarantee(kProblem, 0, steps - 1).bound > target);
}

TEST_CASE("no bound increases with steps or decreases with the compressor's variance") {
  const Mixing ring{0.8, 1.33};
  const auto bounds = [&](double variance, double steps) {
    return std::vector<double>{
        convex_guarantee(kProblem, variance, steps).bound,
        nonconvex_guarantee(kProblem, variance, steps).bound,
        error_feedback_guarantee(kProblem, variance, steps).bound,
        heavy_ball_guarantee(kProblem, variance, 0.9, steps).bound,
        convex_momentum_guarantee(kProblem, variance, 0.9, true, steps).bound,
        gossip_guarantee(kProblem, ring, 1, variance, steps).bound};
  };
  for (double steps = 1; steps < 1e7; steps *= 3) {
    const auto now = bounds(0.01, steps), later = bounds(0.01, 3 * steps),
               worse = bounds(0.012, steps);
    for (std::size_t i = 0; i < now.size(); ++i) {
      INFO("bound " << i << " after " << steps);
      CHECK(later[i] <= now[i] * (1 + 1e-9));
      CHECK(worse[i] >= now[i] * (1 - 1e-9));
    }
  }
}

TEST_CASE("the bound with error feedback, worked by hand") {
  // h = 1/4: (2 * 5 / (h T) + 2 h / 4 + 4 h^2 * 4 w * 4 / (1 - w)^2) / (1 - 2 h), T = 40, w = 1/2.
  const auto by_hand = [](double h) { return (0.25 / h + h / 2 + 4 * h * h * 32) / (1 - 2 * h); };
  const Guarantee found = error_feedback_guarantee(kProblem, 0.5, 40);
  CHECK(by_hand(0.25) == Approx(2 * (1 + 0.125 + 8)));
  CHECK(found.bound == Approx(by_hand(found.step_size)));
  for (const double other : {0.5, 0.9, 1.1, 2.0})
    CHECK(found.bound <= by_hand(other * found.step_size) + 1e-12);
  // Without an error only 1 - L h and constants are lost against plain SGD.
  const double plain = nonconvex_guarantee(kProblem, 0, 1e8).bound;
  CHECK(error_feedback_guarantee(kProblem, 0, 1e8).bound == Approx(plain).epsilon(0.01));
  // The error costs less the more steps there are, in contrast to the noise of unbiased codes.
  const auto cost = [&](double steps) {
    return error_feedback_guarantee(kProblem, 0.9, steps).bound /
           error_feedback_guarantee(kProblem, 0, steps).bound;
  };
  CHECK(cost(1e4) > 2);
  CHECK(cost(1e12) < 1.1);
}

TEST_CASE("exact gossip on a complete graph has only its consensus term") {
  // rho = 0, no heterogeneity: 2 D / (h T) + L h sigma^2 / n + 2 L^2 h^2 sigma^2.
  const Mixing complete{0, 1};
  const Guarantee found = gossip_guarantee(kProblem, complete, 0, 0, 1e6);
  const double h = found.step_size;
  CHECK(found.bound == Approx(2 * 5 / (h * 1e6) + 2 * h / 4 + 4 * 2 * h * h));
  for (const double other : {0.5, 0.9, 1.1, 2.0}) {
    const double at = other * h;
    CHECK(found.bound <= 2 * 5 / (at * 1e6) + 2 * at / 4 + 4 * 2 * at * at + 1e-12);
  }
}

TEST_CASE("DCD-PSGD's condition on a ring of 8 allows 8 bits but not 4") {
  // The gap of the ring with weights 1/3 is 0.1953, mu is 4/3.
  const Mixing ring{1 - 0.195262145876, 4.0 / 3};
  CHECK(published_gossip_variance(ring) == Approx(0.0054).epsilon(0.01));
  const auto variance = [](int bits) {
    const int n = (1 << (bits - 1)) - 1;
    return codec::sinh_worst_case_l2(n, 8192, codec::optimal_theta(n, 8192, codec::Norm::l2));
  };
  CHECK(variance(8) < published_gossip_variance(ring));
  CHECK(variance(4) > largest_gossip_variance(ring));
  CHECK(variance(8) < largest_gossip_variance(ring));
}

namespace {

/// Eight ranks on a ring minimise f(w) = sum w^2 / (1 + w^2) (L = 2) with noisy gradients, and send
/// differences that are quantised by sinh levels: the mean of |grad f(mean)|^2 over the steps.
class RingOfEight {
 public:
  static constexpr std::size_t kValues = 64;
  static constexpr int kRanks = 8;

  explicit RingOfEight(int bits)
      : levels_(codec::sinh_levels(
            (1 << (bits - 1)) - 1,
            codec::optimal_theta((1 << (bits - 1)) - 1, kValues, codec::Norm::l2))),
        models_(kRanks, std::vector<double>(kValues, kStart)) {}

  double variance() const { return codec::worst_case_variance(levels_, kValues, codec::Norm::l2); }
  static double excess() { return kValues * kStart * kStart / (1 + kStart * kStart); }
  /// Per value at most (9 / (8 sqrt 3))^2.
  static double second_moment() { return kValues * 81.0 / 192 + kNoise; }
  static constexpr double kNoise = 2;

  double run(double step, int steps) {
    double sum = 0;
    for (int t = 0; t < steps; ++t) {
      sum += square_of_gradient(mean());
      advance(step);
    }
    return sum / steps;
  }

 private:
  static constexpr double kStart = 1.2;

  static double slope(double w) { return 2 * w / ((1 + w * w) * (1 + w * w)); }

  std::vector<double> mean() const {
    std::vector<double> mean(kValues);
    for (const auto& model : models_)
      for (std::size_t i = 0; i < kValues; ++i) mean[i] += model[i] / kRanks;
    return mean;
  }
  static double square_of_gradient(const std::vector<double>& w) {
    double sum = 0;
    for (const double x : w) sum += slope(x) * slope(x);
    return sum;
  }

  /// x <- x + Q(W x - h g - x).
  void advance(double step) {
    auto next = models_;
    for (int r = 0; r < kRanks; ++r) {
      std::vector<double> z(kValues);
      double squares = 0;
      for (std::size_t i = 0; i < kValues; ++i) {
        const auto at = [&](int rank) { return models_[static_cast<std::size_t>(rank)][i]; };
        const double mixed = (at(r) + at((r + 1) % kRanks) + at((r + kRanks - 1) % kRanks)) / 3;
        const double noise = random_.normal() * std::sqrt(kNoise / kValues);
        z[i] = mixed - step * (slope(at(r)) + noise) - at(r);
        squares += z[i] * z[i];
      }
      for (std::size_t i = 0; i < kValues; ++i)
        next[static_cast<std::size_t>(r)][i] += quantised(z[i], std::sqrt(squares));
    }
    models_ = next;
  }

  double quantised(double z, double norm) {
    const codec::Cell cell = codec::find_cell(levels_, std::min(1.0, std::abs(z) / norm));
    const std::size_t index = cell.lower + (random_.uniform() < cell.up ? 1 : 0);
    return std::copysign(norm * levels_[index], z);
  }

  codec::Levels levels_;
  std::vector<std::vector<double>> models_;
  RandomSequence random_{RandomKey{.run_seed = 7, .step = 0, .rank = 0, .slice = 1}};
};

}  // namespace

TEST_CASE("quantised gossip stays below its guarantee") {
  const Mixing ring{1 - 0.195262145876, 4.0 / 3};
  for (const int bits : {6, 8}) {
    RingOfEight job(bits);
    REQUIRE(job.variance() <= largest_gossip_variance(ring));
    const Problem problem{.smoothness = 2,
                          .radius = 0,
                          .excess = RingOfEight::excess(),
                          .noise = RingOfEight::kNoise,
                          .second_moment = RingOfEight::second_moment(),
                          .gradient = 0,
                          .ranks = RingOfEight::kRanks};
    constexpr int kSteps = 1500;
    const Guarantee promised = gossip_guarantee(problem, ring, 0, job.variance(), kSteps);
    const double found = job.run(promised.step_size, kSteps);
    INFO(bits << " bits: " << found << " of at most " << promised.bound);
    CHECK(found <= promised.bound);
    CHECK(found > 0);
  }
}

TEST_CASE("top-1 with error feedback stays below its guarantee") {
  // Four ranks with a memory each minimise f(w) = sum w^2 / (1 + w^2), L = 2, with noisy gradients.
  constexpr std::size_t kValues = 16;
  constexpr int kRanks = 4, kSteps = 4000;
  constexpr double kStart = 1.2, kNoise = 1;
  const auto slope = [](double w) { return 2 * w / ((1 + w * w) * (1 + w * w)); };
  const Problem problem{.smoothness = 2,
                        .radius = 0,
                        .excess = kValues * kStart * kStart / (1 + kStart * kStart),
                        .noise = kNoise,
                        .second_moment = kValues * 81.0 / 192 + kNoise,  // slopes: as above
                        .gradient = 0,
                        .ranks = kRanks};
  const Guarantee promised = error_feedback_guarantee(problem, 1 - 1.0 / kValues, kSteps);
  RandomSequence random{RandomKey{.run_seed = 9, .step = 0, .rank = 0, .slice = 1}};
  std::vector<double> model(kValues, kStart);
  std::vector<std::vector<double>> residuals(kRanks, std::vector<double>(kValues));
  double found = 0;
  for (int t = 0; t < kSteps; ++t) {
    std::vector<double> update(kValues);
    for (auto& residual : residuals) {
      std::size_t largest = 0;
      for (std::size_t i = 0; i < kValues; ++i) {
        const double noise = random.normal() * std::sqrt(kNoise / kValues);
        residual[i] += promised.step_size * (slope(model[i]) + noise);
        if (std::abs(residual[i]) > std::abs(residual[largest])) largest = i;
      }
      update[largest] += std::exchange(residual[largest], 0) / kRanks;
    }
    for (std::size_t i = 0; i < kValues; ++i) {
      found += slope(model[i]) * slope(model[i]) / kSteps;
      model[i] -= update[i];
    }
  }
  INFO(found << " of at most " << promised.bound);
  CHECK(found <= promised.bound);
  CHECK(found > 0);
}
