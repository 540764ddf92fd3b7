// SPDX-License-Identifier: Apache-2.0
// Muon against its definition in double, and its orthogonal matrices on every instruction set.

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "optim/optimizer.hpp"
#include "optim/orthogonal.hpp"
#include "optim/unit/noise.hpp"
#include "support/catch.hpp"
#include "support/refusal.hpp"
#include "support/saved_state.hpp"
#include "support/simd_targets.hpp"

using namespace eqt;
using namespace eqt::optim;
using eqt::test::noise;

namespace {

using Matrix = std::vector<double>;  // (rows, columns)

Matrix product(std::size_t rows, std::size_t depth, std::size_t columns, const Matrix& a,
               const Matrix& b) {
  Matrix c(rows * columns);
  for (std::size_t i = 0; i < rows; ++i)
    for (std::size_t k = 0; k < depth; ++k)
      for (std::size_t j = 0; j < columns; ++j)
        c[i * columns + j] += a[i * depth + k] * b[k * columns + j];
  return c;
}

Matrix transposed(std::size_t rows, std::size_t columns, const Matrix& a) {
  Matrix t(a.size());
  for (std::size_t i = 0; i < rows; ++i)
    for (std::size_t j = 0; j < columns; ++j) t[j * rows + i] = a[i * columns + j];
  return t;
}

/// Newton and Schulz's iteration as the source writes it, in double.
Matrix orthogonal(std::size_t rows, std::size_t columns, int iterations, Matrix x) {
  if (rows > columns)
    return transposed(columns, rows,
                      orthogonal(columns, rows, iterations, transposed(rows, columns, x)));
  double square = 0;
  for (const double value : x) square += value * value;
  for (double& value : x) value /= std::sqrt(square) + 1e-7;
  for (int i = 0; i < iterations; ++i) {
    const Matrix a = product(rows, columns, rows, x, transposed(rows, columns, x));
    Matrix b = product(rows, rows, rows, a, a);
    for (std::size_t j = 0; j < b.size(); ++j) b[j] = -4.7750 * a[j] + 2.0315 * b[j];
    const Matrix bx = product(rows, rows, columns, b, x);
    for (std::size_t j = 0; j < x.size(); ++j) x[j] = 3.4445 * x[j] + bx[j];
  }
  return x;
}

TensorSlice slice(std::string name, std::vector<std::int64_t> shape, std::size_t offset) {
  std::size_t count = 1;
  for (const std::int64_t side : shape) count *= static_cast<std::size_t>(side);
  return {std::move(name), std::move(shape), offset, count};
}

/// A convolution of 6 x 27, its bias, a linear layer of 5 x 4 and a single row.
Layout small_layout() {
  return {slice("conv.weight", {6, 3, 3, 3}, 0), slice("conv.bias", {6}, 162),
          slice("fc.weight", {5, 4}, 168), slice("row.weight", {1, 12}, 188)};
}
constexpr std::size_t kCount = 200;

}  // namespace

TEST_CASE("a matrix becomes orthogonal as the definition says", "[muon]") {
  const auto [rows, columns] = GENERATE(table<std::size_t, std::size_t>(
      {{2, 2}, {5, 7}, {7, 5}, {33, 33}, {64, 27}, {24, 300}, {70, 520}, {300, 12}}));
  const int iterations = GENERATE(1, 3, 5);
  std::vector<float> x = noise(rows * columns, rows + columns);
  const Matrix expected = orthogonal(rows, columns, iterations, Matrix(x.begin(), x.end()));
  Orthogonalizer().apply(rows, columns, iterations, x);
  for (std::size_t i = 0; i < x.size(); ++i)
    REQUIRE(static_cast<double>(x[i]) == Approx(expected[i]).margin(2e-4).epsilon(0));
}

TEST_CASE("singular values become numbers around 1", "[muon]") {
  constexpr std::size_t kRows = 8, kColumns = 20;
  // Rows along different axes, whose lengths are the singular values.
  std::vector<float> x(kRows * kColumns);
  for (std::size_t i = 0; i < kRows; ++i)
    x[i * kColumns + i] = std::pow(0.5f, static_cast<float>(i));
  Orthogonalizer().apply(kRows, kColumns, 5, x);
  for (std::size_t i = 0; i < kRows; ++i) {
    for (std::size_t j = 0; j < kColumns; ++j) {
      if (i != j) REQUIRE(x[i * kColumns + j] == 0);
    }
    CHECK(x[i * kColumns + i] > 0.65f);
    CHECK(x[i * kColumns + i] < 1.25f);
  }
}

TEST_CASE("a matrix of zeros stays one", "[muon]") {
  std::vector<float> x(12);
  Orthogonalizer().apply(3, 4, 5, x);
  CHECK(std::ranges::all_of(x, [](float value) { return value == 0; }));
}

TEST_CASE("orthogonal matrices have the same bits on every instruction set", "[muon]") {
  const auto [rows, columns] =
      GENERATE(table<std::size_t, std::size_t>({{64, 576}, {33, 49}, {24, 12}}));
  std::vector<std::vector<float>> results;
  test::for_each_simd_target([&] {
    results.push_back(noise(rows * columns, 5));
    Orthogonalizer().apply(rows, columns, 3, results.back());
  });
  for (const auto& result : results) CHECK(result == results.front());
}

TEST_CASE("Muon follows its definition in double", "[muon]") {
  const bool nesterov = GENERATE(false, true), fixed_norm = GENERATE(false, true);
  constexpr double kMomentum = 0.75, kDecay = 0.125;
  const Layout layout = small_layout();
  std::vector<float> p = noise(kCount, 1);
  std::vector<double> exact(p.begin(), p.end()), m(kCount);
  // The linear layer is updated as a vector, at twice the rate.
  UpdateRules rules = {
      {.begin = 0, .end = 168, .rate_factor = 1, .weight_decay = kDecay},
      {.begin = 168, .end = 188, .rate_factor = 2, .weight_decay = 0, .orthogonal = false},
      {.begin = 188, .end = kCount, .rate_factor = 1, .weight_decay = kDecay}};
  const auto muon = make_muon(layout, {.momentum = 0.75f,
                                       .nesterov = nesterov,
                                       .weight_decay = kDecay,
                                       .iterations = 3,
                                       .fixed_norm = fixed_norm,
                                       .rules = rules});
  for (std::uint64_t step = 1; step <= 4; ++step) {
    const std::vector<float> g = noise(kCount, 1 + step);
    const double rate = 0.25 / static_cast<double>(step);
    muon->step(p, g, static_cast<float>(rate));
    Matrix direction(162);
    for (std::size_t i = 0; i < kCount; ++i) {
      const bool matrix = i < 162, linear = i >= 168 && i < 188;
      const double d = static_cast<double>(g[i]) + (matrix || linear ? 0 : kDecay * exact[i]);
      m[i] = kMomentum * m[i] + d;
      const double ahead = nesterov ? d + kMomentum * m[i] : m[i];
      if (matrix)
        direction[i] = ahead;
      else
        exact[i] -= (linear ? 2 : 1) * rate * ahead;
    }
    direction = orthogonal(6, 27, 3, direction);
    double square = 0;
    for (std::size_t i = 0; i < 162; ++i) square += exact[i] * exact[i];
    const double keep = fixed_norm ? std::sqrt(6 / square) : 1 - rate * kDecay;
    for (std::size_t i = 0; i < 162; ++i) exact[i] = keep * exact[i] - rate * direction[i];
  }
  for (std::size_t i = 0; i < kCount; ++i)
    REQUIRE(static_cast<double>(p[i]) == Approx(exact[i]).margin(1e-4).epsilon(0));
}

TEST_CASE("without a fixed norm, high matrices have a larger rate", "[muon]") {
  const Layout layout = {slice("w", {16, 4}, 0)};
  std::vector<float> p(64, 0), direction = noise(64, 3);
  make_muon(layout, {.momentum = 0, .nesterov = false})->step(p, direction, 0.5f);
  Orthogonalizer().apply(16, 4, 5, direction);
  for (std::size_t i = 0; i < p.size(); ++i) REQUIRE(p[i] == Approx(-0.5 * 2 * direction[i]));
}

TEST_CASE("a fixed norm leaves a matrix of zeros alone", "[muon]") {
  const Layout layout = {slice("w", {3, 4}, 0)};
  std::vector<float> p(12, 0);
  make_muon(layout, {.fixed_norm = true})->step(p, std::vector<float>(12, 0), 0.1f);
  CHECK(p == std::vector<float>(12, 0));
}

TEST_CASE("the momentum is Muon's state", "[muon]") {
  const auto muon = make_muon(small_layout(), {.momentum = 0.5f});
  std::vector<float> p(kCount, 1);
  for (int i = 0; i < 2; ++i) muon->step(p, std::vector<float>(kCount, 2), 0.1f);
  test::StateSpans state;
  muon->visit_state(state, Across::same);
  REQUIRE(state.floats.size() == 1);
  CHECK(state.floats[0].size() == kCount);
  CHECK(state.floats[0][0] == 3);
}

TEST_CASE("Muon refuses coefficients out of range and networks without matrices", "[muon]") {
  const auto refusal = [](const Layout& layout, const MuonOptions& options) {
    return test::refusal(Kind::usage, [&] { make_muon(layout, options); });
  };
  const Layout layout = small_layout();
  CHECK_THAT(refusal(layout, {.momentum = 1}),
             Catch::Matchers::ContainsSubstring("optimizer.momentum"));
  CHECK_THAT(refusal(layout, {.momentum = 0}),
             Catch::Matchers::ContainsSubstring("optimizer.nesterov"));
  CHECK_THAT(refusal(layout, {.weight_decay = -1}),
             Catch::Matchers::ContainsSubstring("optimizer.weight_decay"));
  CHECK_THAT(refusal(layout, {.iterations = 0}),
             Catch::Matchers::ContainsSubstring("optimizer.iterations"));
  const Layout vectors = {slice("a", {7}, 0), slice("b", {1, 9}, 7)};
  CHECK_THAT(refusal(vectors, {}),
             Catch::Matchers::ContainsSubstring("expected a network with a matrix"));
}
