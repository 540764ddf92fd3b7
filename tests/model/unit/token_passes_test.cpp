// SPDX-License-Identifier: Apache-2.0
// Rows of tokens, compared with their formulas in double precision.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "core/random.hpp"
#include "model/own/token_passes.hpp"
#include "support/catch.hpp"
#include "support/simd_targets.hpp"

namespace eqt::model::precision {
namespace {

constexpr std::size_t kRows = 3;

std::vector<float> random_values(std::size_t count, std::uint32_t slice, float scale = 1) {
  const RandomStream random({.run_seed = 5, .step = 0, .rank = 0, .slice = slice});
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i)
    values[i] = scale * (2 * random.uniform(static_cast<std::uint32_t>(i)) - 1);
  return values;
}

/// Central differences of sum(weights * f(x)) by each x.
std::vector<double> slopes_of(
    const std::function<std::vector<double>(const std::vector<double>&)>& f, std::vector<double> x,
    const std::vector<float>& weights) {
  constexpr double kStep = 1e-5;
  const auto total = [&] {
    const std::vector<double> y = f(x);
    double sum = 0;
    for (std::size_t i = 0; i < y.size(); ++i) sum += y[i] * static_cast<double>(weights[i]);
    return sum;
  };
  std::vector<double> slopes;
  for (double& value : x) {
    const double before = value;
    value = before + kStep;
    const double above = total();
    value = before - kStep;
    slopes.push_back((above - total()) / (2 * kStep));
    value = before;
  }
  return slopes;
}

std::vector<double> normalized(const std::vector<double>& x, std::size_t columns, double epsilon) {
  std::vector<double> y(x.size());
  for (std::size_t r = 0; r < x.size(); r += columns) {
    double mean = 0, squares = 0;
    for (std::size_t i = 0; i < columns; ++i) mean += x[r + i] / static_cast<double>(columns);
    for (std::size_t i = 0; i < columns; ++i)
      squares += std::pow(x[r + i] - mean, 2) / static_cast<double>(columns);
    for (std::size_t i = 0; i < columns; ++i)
      y[r + i] = (x[r + i] - mean) / std::sqrt(squares + epsilon);
  }
  return y;
}

std::vector<double> softmax(const std::vector<double>& x, std::size_t columns) {
  std::vector<double> y(x.size());
  for (std::size_t r = 0; r < x.size(); r += columns) {
    double sum = 0;
    for (std::size_t i = 0; i < columns; ++i) sum += std::exp(x[r + i]);
    for (std::size_t i = 0; i < columns; ++i) y[r + i] = std::exp(x[r + i]) / sum;
  }
  return y;
}

std::vector<double> doubles(const std::vector<float>& x) { return {x.begin(), x.end()}; }

TEST_CASE("layer norms and their errors are those of the formula", "[tokens]") {
  const std::size_t columns = GENERATE(1u, 5u, 16u, 37u, 192u);
  CAPTURE(columns);
  constexpr float kEpsilon = 1e-3f;
  const std::vector<float> x = random_values(kRows * columns, 1, 3), g = random_values(x.size(), 2);
  std::vector<float> inverse(kRows), y(x.size()), error = random_values(x.size(), 3);
  const std::vector<float> before = error;
  layer_norm(x, kEpsilon, inverse, y);
  const auto formula = [&](const std::vector<double>& in) {
    return normalized(in, columns, static_cast<double>(kEpsilon));
  };
  const std::vector<double> expected = formula(doubles(x));
  for (std::size_t i = 0; i < y.size(); ++i)
    CHECK(static_cast<double>(y[i]) == Approx(expected[i]).margin(1e-5));
  add_layer_norm_error(g, Floats(y), 1, inverse, error);
  const std::vector<double> slopes = slopes_of(formula, doubles(x), g);
  for (std::size_t i = 0; i < y.size(); ++i)
    CHECK(static_cast<double>(error[i] - before[i]) == Approx(slopes[i]).margin(1e-4));
}

TEST_CASE("exponentials, their sums and errors are those of a softmax", "[tokens]") {
  const std::size_t columns = GENERATE(1u, 5u, 16u, 37u, 197u);
  CAPTURE(columns);
  const std::vector<float> x = random_values(kRows * columns, 1, 4);
  std::vector<float> e = x, totals(kRows);
  exponentials(columns, e);
  row_sums(Floats(e), 0, 1, totals);
  const auto formula = [&](const std::vector<double>& in) { return softmax(in, columns); };
  const std::vector<double> expected = formula(doubles(x));
  for (std::size_t i = 0; i < e.size(); ++i)
    CHECK(static_cast<double>(e[i] / totals[i / columns]) == Approx(expected[i]).margin(1e-6));
  // The error of e, as a mean of e with weights w has it: w / total.
  const std::vector<float> w = random_values(x.size(), 2);
  std::vector<float> g = w;
  for (std::size_t i = 0; i < g.size(); ++i) g[i] /= totals[i / columns];
  softmax_error(Floats(e), 0, 1, totals, g);
  const std::vector<double> slopes = slopes_of(formula, doubles(x), w);
  for (std::size_t i = 0; i < g.size(); ++i)
    CHECK(static_cast<double>(g[i]) == Approx(slopes[i]).margin(1e-5));
}

TEST_CASE("8-bit operands count as their values", "[tokens]") {
  constexpr std::size_t kColumns = 37;
  constexpr int kZero = -128;
  constexpr float kScale = 1.0f / 255;
  std::vector<std::int8_t> q(kRows * kColumns);
  std::vector<float> values(q.size());
  for (std::size_t i = 0; i < q.size(); ++i) {
    q[i] = static_cast<std::int8_t>(static_cast<int>(i * 7 % 255) - 127);
    values[i] = static_cast<float>(q[i] - kZero) * kScale;
  }
  std::vector<float> sums(kRows), expected(kRows);
  row_sums(Bytes(q), kZero, kScale, sums);
  row_sums(Floats(values), 0, 1, expected);
  for (std::size_t r = 0; r < kRows; ++r) CHECK(sums[r] == Approx(expected[r]));
  std::vector<float> a = random_values(q.size(), 2), b = a;
  softmax_error(Bytes(q), kZero, kScale, sums, a);
  softmax_error(Floats(values), 0, 1, expected, b);
  for (std::size_t i = 0; i < a.size(); ++i) CHECK(a[i] == Approx(b[i]).margin(1e-6));
  for (std::size_t i = 0; i < q.size(); ++i) values[i] = static_cast<float>(q[i]) * kScale;
  const std::vector<float> g = random_values(q.size(), 3), inverse = {1, 2, 3};
  std::ranges::fill(a, 1.0f);
  b = a;
  add_layer_norm_error(g, Bytes(q), kScale, inverse, a);
  add_layer_norm_error(g, Floats(values), 1, inverse, b);
  for (std::size_t i = 0; i < a.size(); ++i) CHECK(a[i] == Approx(b[i]).margin(1e-5));
}

TEST_CASE("the gradients of a layer behind a norm are those of both", "[tokens]") {
  constexpr std::size_t kColumns = 5;
  const std::vector<float> w = random_values(kRows * kColumns, 1),
                           gain = random_values(kColumns, 2), shift = random_values(kColumns, 3),
                           x = random_values(kColumns, 4), error = random_values(kRows, 5);
  // One token: out = W (g x + b), whose error is known.
  std::vector<float> weight(w.size()), gains(kColumns, 9.0f), biases(kColumns, 9.0f);
  for (std::size_t r = 0; r < kRows; ++r)
    for (std::size_t c = 0; c < kColumns; ++c) weight[r * kColumns + c] = error[r] * x[c];
  unfold_gradient(w, gain, shift, error, weight, gains, biases);
  for (std::size_t c = 0; c < kColumns; ++c) {
    float of_input = 0;
    for (std::size_t r = 0; r < kRows; ++r) {
      of_input += w[r * kColumns + c] * error[r];
      CHECK(weight[r * kColumns + c] ==
            Approx(error[r] * (gain[c] * x[c] + shift[c])).margin(1e-6));
    }
    CHECK(gains[c] == Approx(of_input * x[c]).margin(1e-6));
    CHECK(biases[c] == Approx(of_input).margin(1e-6));
  }
}

TEST_CASE("sums of rows have the same bits for all widths of vectors", "[tokens]") {
  const std::vector<float> x = random_values(kRows * 197, 1);
  std::vector<float> first;
  test::for_each_simd_target([&] {
    std::vector<float> inverse(kRows), y(x.size()), error(x.size(), 1.0f);
    layer_norm(x, 1e-6f, inverse, y);
    add_layer_norm_error(x, Floats(y), 1, inverse, error);
    if (first.empty()) first = error;
    CHECK(error == first);
  });
}

TEST_CASE("columns are scaled and taken", "[tokens]") {
  const std::vector<float> x = {1, 2, 3, 4, 5, 6};
  std::vector<float> out(6), two(4);
  scale_columns(x, std::vector<float>{1, 10, 100}, out);
  CHECK(out == std::vector<float>{1, 20, 300, 4, 50, 600});
  take_columns(x, 3, 1, 2, 2, two);
  CHECK(two == std::vector<float>{4, 6, 10, 12});
}

}  // namespace
}  // namespace eqt::model::precision
