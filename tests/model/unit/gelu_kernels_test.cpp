// SPDX-License-Identifier: Apache-2.0
// The Gaussian error linear unit against its definition in float64, on every instruction set.

#include "model/gelu_kernels.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <vector>

#include "support/catch.hpp"
#include "support/simd_targets.hpp"

namespace eqt::model {
namespace {

/// Phi(x).
double normal_below(double x) { return std::erfc(-x / std::numbers::sqrt2) / 2; }

double gelu_slope(double x) {
  const double density = std::exp(-x * x / 2) * std::numbers::inv_sqrtpi / std::numbers::sqrt2;
  return normal_below(x) + x * density;
}

TEST_CASE("gelu and its derivative have the declared errors", "[gelu]") {
  std::vector<float> x;
  for (int i = -16000; i <= 16000; ++i) x.push_back(static_cast<float>(i) * 0.00073f);
  for (const float far : {0.0f, -0.0f, 1e-30f, -1e-30f, 40.0f, -40.0f, 1e18f, -1e18f})
    x.push_back(far);
  test::for_each_simd_target([&] {
    std::vector<float> y(x.size()), dx(x.size());
    const std::vector<float> g(x.size(), 2.0f);
    gelu(x, y);
    gelu_gradient(g, x, dx);
    double worst = 0, worst_slope = 0;
    for (std::size_t i = 0; i < x.size(); ++i) {
      const auto exact = static_cast<double>(x[i]);
      const double size = std::max(1.0, std::fabs(exact));
      worst = std::max(worst,
                       std::fabs(static_cast<double>(y[i]) - exact * normal_below(exact)) / size);
      worst_slope =
          std::max(worst_slope, std::fabs(static_cast<double>(dx[i]) / 2 - gelu_slope(exact)));
    }
    CHECK(worst < 2e-7);
    CHECK(worst_slope < 4e-7);
  });
}

TEST_CASE("gelu keeps what is not a number", "[gelu]") {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  test::for_each_simd_target([&] {
    for (const std::size_t place : {std::size_t{0}, std::size_t{20}}) {
      std::vector<float> x(21, 1.0f), y(21), dx(21);
      const std::vector<float> ones(21, 1.0f);
      x[place] = nan;
      gelu(x, y);
      gelu_gradient(ones, x, dx);
      CHECK(std::isnan(y[place]));
      CHECK(std::isnan(dx[place]));
      CHECK(std::ranges::count_if(y, [](float v) { return std::isnan(v); }) == 1);
      x[place] = 1;
      std::vector<float> g = ones;
      g[place] = nan;
      gelu_gradient(g, x, dx);
      CHECK(std::isnan(dx[place]));
    }
  });
}

}  // namespace
}  // namespace eqt::model
