// SPDX-License-Identifier: Apache-2.0
// The vector kernels against the formulas in float64, written out channel by channel.

#include "model/norm_kernels.hpp"

#include <cmath>
#include <limits>
#include <vector>

#include "core/random.hpp"
#include "support/catch.hpp"

namespace eqt::model {
namespace {

std::vector<float> draw(std::size_t count, std::uint32_t slice, float offset = 0) {
  const RandomStream random({.run_seed = 7, .slice = slice});
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i) {
    values[i] = offset + 4 * random.uniform(static_cast<std::uint32_t>(i)) - 2;
  }
  return values;
}

struct Case {
  explicit Case(std::size_t channel_count)
      : channels(channel_count),
        mean(draw(channels, 1)),
        scale(draw(channels, 2)),
        shift(draw(channels, 3)) {}
  ChannelMap map() const { return {mean, scale, shift}; }
  double normalized(double x, std::size_t c) const { return (x - mean[c]) * scale[c] + shift[c]; }

  std::size_t channels;
  std::vector<float> mean, scale, shift;
};

// Below, at and above vector widths; primes; wider than a wide row.
const auto kChannels = {1, 3, 10, 16, 17, 64, 100, 256, 300, 512};
const auto kRows = {1, 2, 7, 64, 131};

TEST_CASE("moments of a block are those of float64, however far the mean is from zero") {
  const auto channels = static_cast<std::size_t>(GENERATE(values<int>(kChannels)));
  const auto rows = static_cast<std::size_t>(GENERATE(values<int>(kRows)));
  const float far = GENERATE(0.0f, 1000.0f);
  const auto moments = GENERATE(&channel_moments, &channel_moments_near);
  CAPTURE(channels, rows, far);
  const auto x = draw(rows * channels, 4, far);
  std::vector<float> mean(channels), squares(channels);
  moments(x, mean, squares);
  for (std::size_t c = 0; c < channels; ++c) {
    double sum = 0, square_sum = 0;
    for (std::size_t r = 0; r < rows; ++r) sum += x[r * channels + c];
    const double exact = sum / static_cast<double>(rows);
    for (std::size_t r = 0; r < rows; ++r) {
      square_sum += std::pow(x[r * channels + c] - exact, 2);
    }
    REQUIRE(mean[c] == Approx(exact).epsilon(1e-6).margin(1e-6));
    // A mean that is off by its rounding adds its square once per row.
    REQUIRE(squares[c] ==
            Approx(square_sum).epsilon(1e-5).margin(static_cast<double>(rows) * 1e-7));
  }
}

TEST_CASE("normalization, residual and ReLU in one pass equal the three formulas") {
  const Case net(static_cast<std::size_t>(GENERATE(values<int>(kChannels))));
  const auto rows = static_cast<std::size_t>(GENERATE(values<int>(kRows)));
  const bool relu = GENERATE(false, true);
  const bool with_residual = GENERATE(false, true);
  const std::size_t count = rows * net.channels;
  const auto x = draw(count, 4);
  const auto residual = with_residual ? draw(count, 5) : std::vector<float>();
  std::vector<float> y(count);
  normalize_rows(x, residual, net.map(), relu, y);
  for (std::size_t i = 0; i < count; ++i) {
    double exact = net.normalized(x[i], i % net.channels) + (with_residual ? residual[i] : 0);
    if (relu) exact = std::max(exact, 0.0);
    REQUIRE(y[i] == Approx(exact).epsilon(1e-5).margin(1e-5));
  }
}

TEST_CASE("gradient kernels equal the formulas for every gate") {
  const Case net(static_cast<std::size_t>(GENERATE(values<int>(kChannels))));
  const auto rows = static_cast<std::size_t>(GENERATE(values<int>(kRows)));
  const Gate gate = GENERATE(Gate::open, Gate::by_input, Gate::by_output);
  const std::size_t channels = net.channels, count = rows * channels;
  const auto x = draw(count, 4), g = draw(count, 6);
  const auto residual = gate == Gate::by_output ? draw(count, 5) : std::vector<float>();
  std::vector<float> y(count), gated(gate == Gate::by_output ? count : 0);
  normalize_rows(x, residual, net.map(), gate != Gate::open, y);

  std::vector<float> sums(channels), products(channels), dx(count);
  gradient_sums(g, x, gate == Gate::by_output ? y : std::vector<float>(), net.map(), gate, sums,
                products, gated);
  const auto offset = draw(channels, 8), slope = draw(channels, 9);
  input_gradient(gate == Gate::by_output ? gated : g, x, net.map(), gate, offset, slope, dx);

  for (std::size_t c = 0; c < channels; ++c) {
    double sum = 0, product = 0;
    for (std::size_t i = c; i < count; i += channels) {
      const double d = gate == Gate::open || y[i] > 0 ? g[i] : 0;
      const double t = static_cast<double>(x[i]) - net.mean[c];
      sum += d;
      product += d * t;
      if (gate == Gate::by_output) REQUIRE(static_cast<double>(gated[i]) == d);
      REQUIRE(dx[i] ==
              Approx(net.scale[c] * d - offset[c] - t * slope[c]).epsilon(1e-5).margin(1e-5));
    }
    REQUIRE(sums[c] == Approx(sum).epsilon(1e-5).margin(1e-4));
    REQUIRE(products[c] == Approx(product).epsilon(1e-5).margin(1e-4));
  }
}

TEST_CASE("NaN passes ReLU, forwards and backwards") {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> mean(16), scale(16, 1.0f), shift(16), g(16, 1.0f);
  std::vector<float> x(16, -1.0f), y(16), sums(16), products(16);
  x[5] = nan;
  const ChannelMap map{mean, scale, shift};
  normalize_rows(x, {}, map, true, y);
  gradient_sums(g, x, {}, map, Gate::by_input, sums, products, {});
  CHECK(std::isnan(y[5]));
  CHECK(y[4] == 0.0f);
  CHECK(sums[5] == 1.0f);
  CHECK(sums[4] == 0.0f);
}

}  // namespace
}  // namespace eqt::model
