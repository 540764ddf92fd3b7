// SPDX-License-Identifier: Apache-2.0
#include "codec/levels/levels.hpp"

#include <algorithm>
#include <cmath>

#include "codec/levels/ieee_math.hpp"
#include "core/error.hpp"

namespace eqt::codec {
namespace {

double norm_root(std::size_t d) { return std::sqrt(static_cast<double>(d)); }

// ln(1 + x), x >= 0, without the rounding of 1 + x.
double log_one_plus(double x) {
  if (x > 0.5) return ieee_log(1 + x);
  const double z = x / (2 + x);  // 2 artanh(z)
  double sum = 0, power = z;
  for (int i = 1; i < 41; i += 2) {
    sum += power / i;
    power *= z * z;
  }
  return 2 * sum;
}

// h_j(mu) = (l_j + l_(j+1))^2 / (4 mu) - l_j l_(j+1): the conjugate of cell j's parabola.
double largest_conjugate(std::span<const double> levels, double mu) {
  double largest = 0;
  for (std::size_t j = 0; j + 1 < levels.size(); ++j) {
    const double sum = levels[j] + levels[j + 1];
    largest = std::max(largest, sum * sum / (4 * mu) - levels[j] * levels[j + 1]);
  }
  return largest;
}

double worst_case_l2(std::span<const double> levels, double d) {
  const auto dual = [&](double log_mu) {
    const double mu = ieee_exp(log_mu);
    return mu - 1 + d * largest_conjugate(levels, mu);
  };
  return dual(golden_section(dual, ieee_log(1e-6), ieee_log(1 + 2 * d)));
}

double worst_case_max(std::span<const double> levels, double d) {
  const auto excess = [&](double e) { return (d - 1) * largest_conjugate(levels, 1 + e) - e; };
  double low = 0, high = 1;
  while (excess(high) > 0) high *= 2;
  for (int i = 0; i < 100; ++i) {
    const double middle = (low + high) / 2;
    (excess(middle) > 0 ? low : high) = middle;
  }
  return (low + high) / 2;
}

}  // namespace

Levels uniform_levels(int n) {
  Levels levels(static_cast<std::size_t>(n) + 1);
  for (std::size_t j = 0; j < levels.size(); ++j) levels[j] = static_cast<double>(j) / n;
  return levels;
}

Levels sinh_levels(int n, double theta) {
  if (theta < 1e-9) return uniform_levels(n);
  // (1 - e^(-2 j theta)) / (1 - e^(-2 n theta)) * e^((j-n) theta), which cannot overflow. For small
  // theta the differences cancel, and the plain quotient is accurate.
  Levels levels(static_cast<std::size_t>(n) + 1);
  for (int j = 0; j < n; ++j) {
    levels[static_cast<std::size_t>(j)] =
        n * theta < 300 ? ieee_sinh(j * theta) / ieee_sinh(n * theta)
                        : ieee_exp((j - n) * theta) * (1 - ieee_exp(-2 * j * theta));
  }
  levels.back() = 1;
  return levels;
}

Levels exponential_levels(int n, double p) {
  Levels levels(static_cast<std::size_t>(n) + 1);
  double level = 1;
  for (std::size_t j = levels.size() - 1; j > 0; --j, level *= p) levels[j] = level;
  levels[0] = 0;
  return levels;
}

Levels mulaw_levels(int n, double mu) {
  if (mu < 1e-12) return uniform_levels(n);
  // e^x - 1 = 2 e^(x/2) sinh(x/2) does not cancel for small x = ln(1 + mu) j / n.
  const double whole = log_one_plus(mu);
  Levels levels(static_cast<std::size_t>(n) + 1);
  for (int j = 0; j < n; ++j) {
    const double x = whole * j / n;
    levels[static_cast<std::size_t>(j)] =
        ieee_exp((x - whole) / 2) * ieee_sinh(x / 2) / ieee_sinh(whole / 2);
  }
  levels.back() = 1;
  return levels;
}

Cell find_cell(std::span<const double> levels, double r) {
  const auto above = std::upper_bound(levels.begin() + 1, levels.end() - 1, r);
  const auto j = static_cast<std::size_t>(above - levels.begin()) - 1;
  return {j, (r - levels[j]) / (levels[j + 1] - levels[j])};
}

double vector_norm(std::span<const float> values, Norm norm) {
  double squares = 0, largest = 0;
  for (const double v : values) {
    squares += v * v;
    largest = std::max(largest, std::abs(v));
  }
  return norm == Norm::l2 ? std::sqrt(squares) : largest;
}

double exact_variance(std::span<const double> levels, std::span<const float> values, Norm norm) {
  const double scale = vector_norm(values, norm);
  if (scale == 0) return 0;
  double variance = 0, squares = 0;
  for (const double v : values) {
    const double r = std::min(std::abs(v) / scale, 1.0);
    const std::size_t j = find_cell(levels, r).lower;
    variance += (levels[j + 1] - r) * (r - levels[j]);
    squares += r * r;
  }
  return variance / squares;
}

double expected_nonzeros(std::span<const double> levels, std::span<const float> values, Norm norm) {
  const double scale = vector_norm(values, norm);
  if (scale == 0) return 0;
  double nonzeros = 0;
  for (const double v : values) nonzeros += std::min(1.0, std::abs(v) / scale / levels[1]);
  return nonzeros;
}

double phi(double a) noexcept { return a <= 2 ? a * a / 4 : a - 1; }

double theorem2_variance(std::span<const double> levels, std::size_t d, Norm) {
  double ratio = 1;
  for (std::size_t j = 1; j + 1 < levels.size(); ++j) {
    ratio = std::max(ratio, levels[j + 1] / levels[j]);
  }
  // min(q, 2) = 2 for both norms, so both see d^(1/2).
  return (ratio - 1) * (ratio - 1) / (4 * ratio) + phi(levels[1] * norm_root(d));
}

double worst_case_variance(std::span<const double> levels, std::size_t d, Norm norm) {
  EQT_CHECK(levels.size() >= 2 && d >= 1, "{} levels, {} values", levels.size(), d);
  const auto count = static_cast<double>(d);
  return norm == Norm::l2 ? worst_case_l2(levels, count) : worst_case_max(levels, count);
}

}  // namespace eqt::codec
