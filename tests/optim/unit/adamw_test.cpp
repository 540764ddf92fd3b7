// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <limits>

#include "optim/optimizer.hpp"
#include "optim/unit/noise.hpp"
#include "support/catch.hpp"
#include "support/refusal.hpp"
#include "support/saved_state.hpp"

using namespace eqt;
using namespace eqt::optim;
using eqt::test::noise;

TEST_CASE("AdamW follows its definition in double", "[adamw]") {
  constexpr std::size_t kCount = 103;  // not a multiple of any vector's length
  constexpr double kBeta1 = 0.8, kBeta2 = 0.99, kEpsilon = 1e-4, kDecay = 0.1;
  auto p = noise(kCount, 1);
  std::vector<double> exact(p.begin(), p.end()), m(kCount), v(kCount);
  const auto adamw = make_adamw(kCount, {0.8, 0.99, 1e-4, 0.1});
  for (std::uint64_t step = 1; step <= 50; ++step) {
    const double rate = 0.01 / static_cast<double>(step);
    const auto g = noise(kCount, 1 + step);
    adamw->step(p, g, static_cast<float>(rate));
    const auto t = static_cast<double>(step);
    for (std::size_t i = 0; i < kCount; ++i) {
      m[i] = kBeta1 * m[i] + (1 - kBeta1) * g[i];
      v[i] = kBeta2 * v[i] + (1 - kBeta2) * g[i] * g[i];
      const double mean = m[i] / (1 - std::pow(kBeta1, t));
      const double square = v[i] / (1 - std::pow(kBeta2, t));
      exact[i] -= rate * kDecay * exact[i] + rate * mean / (std::sqrt(square) + kEpsilon);
    }
  }
  for (std::size_t i = 0; i < kCount; ++i) REQUIRE(p[i] == Approx(exact[i]).margin(1e-6));
}

TEST_CASE("the first step of AdamW is the rate, whatever the gradient's size", "[adamw]") {
  std::vector<float> p = {1, 1, 1};
  make_adamw(3, {0.9, 0.999, 1e-12, 0})->step(p, std::vector<float>{1e-6f, -40, 0}, 0.1f);
  CHECK(p[0] == Approx(0.9));
  CHECK(p[1] == Approx(1.1));
  CHECK(p[2] == 1);
}

TEST_CASE("the moments and the number of steps are AdamW's state", "[adamw]") {
  const auto adamw = make_adamw(5, {});
  std::vector<float> p(5, 1);
  adamw->step(p, std::vector<float>(5, 2), 0.1f);
  test::StateSpans state;
  adamw->visit_state(state, Across::same);
  REQUIRE(state.counts == std::vector<std::uint64_t>{1});
  REQUIRE(state.floats.size() == 2);
  CHECK(state.floats[0][4] == Approx(0.2));    // (1 - 0.9) 2
  CHECK(state.floats[1][0] == Approx(0.004));  // (1 - 0.999) 2^2
}

TEST_CASE("coefficients out of range are refused with their key", "[adamw]") {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  const auto refusal = [](const AdamWOptions& options) {
    return test::refusal(Kind::usage, [&] { make_adamw(1, options); });
  };
  test::says(refusal({.beta1 = 1}), "optimizer.beta1");
  test::says(refusal({.beta1 = kNan}), "optimizer.beta1");
  test::says(refusal({.beta2 = -0.1}), "optimizer.beta2");
  test::says(refusal({.epsilon = 0}), "optimizer.epsilon");
  test::says(refusal({.weight_decay = -1}), "optimizer.weight_decay");
}
