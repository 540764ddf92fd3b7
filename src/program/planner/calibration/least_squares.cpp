// SPDX-License-Identifier: Apache-2.0
#include "planner/calibration/least_squares.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

namespace eqt::planner {
namespace {

/// Solves A x = b for the unknowns of `used`; the others are 0. Nothing if A is singular.
std::optional<std::array<double, 3>> solve(const std::array<std::array<double, 3>, 3>& a,
                                           const std::array<double, 3>& b, unsigned used) {
  std::vector<std::size_t> at;
  for (std::size_t i = 0; i < 3; ++i)
    if ((used >> i) & 1U) at.push_back(i);
  const std::size_t n = at.size();
  std::vector<std::vector<double>> rows(n, std::vector<double>(n + 1));
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j < n; ++j) rows[i][j] = a[at[i]][at[j]];
    rows[i][n] = b[at[i]];
  }
  for (std::size_t i = 0; i < n; ++i) {
    std::size_t pivot = i;
    for (std::size_t r = i + 1; r < n; ++r)
      if (std::abs(rows[r][i]) > std::abs(rows[pivot][i])) pivot = r;
    std::swap(rows[i], rows[pivot]);
    if (!(std::abs(rows[i][i]) > 1e-9)) return {};  // columns have norm 1
    for (std::size_t r = 0; r < n; ++r) {
      if (r == i) continue;
      const double factor = rows[r][i] / rows[i][i];
      for (std::size_t c = i; c <= n; ++c) rows[r][c] -= factor * rows[i][c];
    }
  }
  std::array<double, 3> x{};
  for (std::size_t i = 0; i < n; ++i) x[at[i]] = rows[i][n] / rows[i][i];
  return x;
}

}  // namespace

std::optional<std::array<double, 3>> least_squares(std::span<const Equation> equations,
                                                   std::span<const double> weights) {
  // Counts of additions, messages and bytes differ by powers of ten: columns are scaled to norm 1.
  std::array<double, 3> norm{};
  for (std::size_t e = 0; e < equations.size(); ++e)
    for (std::size_t i = 0; i < 3; ++i) norm[i] += std::pow(equations[e].counts[i] / weights[e], 2);
  for (double& n : norm) {
    if (!(n > 0)) return {};
    n = std::sqrt(n);
  }
  std::array<std::array<double, 3>, 3> a{};
  std::array<double, 3> b{};
  double square = 0;
  for (std::size_t e = 0; e < equations.size(); ++e) {
    const double y = equations[e].seconds / weights[e];
    square += y * y;
    for (std::size_t i = 0; i < 3; ++i) {
      const double x = equations[e].counts[i] / weights[e] / norm[i];
      b[i] += x * y;
      for (std::size_t j = 0; j < 3; ++j)
        a[i][j] += x * equations[e].counts[j] / weights[e] / norm[j];
    }
  }
  if (!solve(a, b, 7)) return {};  // not determined
  std::array<double, 3> best{};
  double least = square;
  for (unsigned used = 1; used < 8; ++used) {
    const auto x = solve(a, b, used);
    if (!x || std::ranges::any_of(*x, [](double c) { return c < 0; })) continue;
    double error = square;
    for (std::size_t i = 0; i < 3; ++i) {
      error -= 2 * (*x)[i] * b[i];
      for (std::size_t j = 0; j < 3; ++j) error += (*x)[i] * a[i][j] * (*x)[j];
    }
    if (error < least) {
      least = error;
      best = *x;
    }
  }
  for (std::size_t i = 0; i < 3; ++i) best[i] /= norm[i];
  return best;
}

}  // namespace eqt::planner
