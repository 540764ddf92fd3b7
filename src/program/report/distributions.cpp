// SPDX-License-Identifier: Apache-2.0
#include "report/distributions.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>
#include <vector>

namespace eqt::report {
namespace {

// Lentz's method may not divide by zero, and stops where a term changes nothing.
constexpr double kTiny = 1e-300, kEnough = 1e-15;
constexpr int kMaxTerms = 10000;

// A term of an integral that adds nothing.
constexpr double kNegligible = 1e-17;

double not_zero(double value) { return std::abs(value) < kTiny ? kTiny : value; }

/// 1 / (1 + d1 / (1 + d2 / (1 + ...))) of Abramowitz and Stegun, 26.5.8; it converges quickly for
/// x < (a + 1) / (a + b + 2).
double beta_fraction(double x, double a, double b) {
  // 1 + d1 / (1 + d2 / ...) grows term by term; the fraction is its inverse.
  double value = 1, c = 1, d = 0;
  for (int i = 1; i <= kMaxTerms; ++i) {
    const double m = i / 2;
    const double coefficient = i % 2 == 0
                                   ? m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
                                   : -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1));
    d = 1 / not_zero(1 + coefficient * d);
    c = not_zero(1 + coefficient / c);
    value *= c * d;
    if (std::abs(c * d - 1) < kEnough) break;
  }
  return 1 / value;
}

/// P(Z >= z) of the normal distribution.
double normal_upper(double z) { return 0.5 * std::erfc(z / std::numbers::sqrt2); }

double normal_density(double z) { return std::exp(-0.5 * z * z) / std::sqrt(2 * std::numbers::pi); }

/// A weight and how many comparisons have it, so that each integral is computed once.
struct Comparisons {
  double weight;
  double count;
};

std::vector<Comparisons> counted(std::span<const double> weights) {
  std::vector<double> sorted(weights.begin(), weights.end());
  std::ranges::sort(sorted);
  std::vector<Comparisons> all;
  for (const double weight : sorted) {
    if (all.empty() || all.back().weight != weight) all.push_back({weight, 0});
    ++all.back().count;
  }
  return all;
}

/// P(max |a_i Z_0 + sqrt(1 - a_i^2) Z_i| >= reach): the trapezoidal rule over Z_0, which converges
/// exponentially. The probability itself is summed, not what it lacks to one, so that small ones
/// keep their digits.
double normal_maximum(double reach, const std::vector<Comparisons>& comparisons) {
  constexpr double kEnd = 38;  // its density is the smallest double
  const double widest = comparisons.back().weight;
  // Other factors change within sqrt(1 - a^2) / a.
  const double step = std::min(0.25, 0.5 * std::sqrt(1 - widest * widest) / widest);
  const auto at = [&](double z) {
    double logarithm = 0;  // of the probability that all stay below
    for (const auto& [weight, count] : comparisons) {
      const double own = std::sqrt(1 - weight * weight);
      const double outside =
          normal_upper((reach - weight * z) / own) + normal_upper((reach + weight * z) / own);
      if (outside >= 1) return normal_density(z);
      logarithm += count * std::log1p(-outside);
    }
    return -std::expm1(logarithm) * normal_density(z);
  };
  double sum = at(0);  // the integrand is even
  for (double z = step; z <= kEnd; z += step) {
    const double term = 2 * at(z);
    sum += term;
    if (z > reach && term < kNegligible * sum) break;
  }
  return std::min(1.0, sum * step);
}

/// P(a, x) of the incomplete gamma function, without the factor x^a exp(-x) / Gamma(a).
double gamma_series(double a, double x) {
  double term = 1 / a, sum = term;
  for (int n = 1; n <= kMaxTerms && term > kEnough * sum; ++n) sum += term *= x / (a + n);
  return sum;
}

/// Q(a, x), without the same factor.
double gamma_fraction(double a, double x) {
  double b = x + 1 - a, c = 1 / kTiny, d = 1 / not_zero(b), value = d;
  for (int n = 1; n <= kMaxTerms; ++n) {
    const double coefficient = -n * (n - a);
    b += 2;
    d = 1 / not_zero(coefficient * d + b);
    c = not_zero(b + coefficient / c);
    value *= c * d;
    if (std::abs(c * d - 1) < kEnough) break;
  }
  return value;
}

}  // namespace

double incomplete_beta(double x, double a, double b) {
  if (x <= 0) return 0;
  if (x >= 1) return 1;
  if (x > (a + 1) / (a + b + 2)) return 1 - incomplete_beta(1 - x, b, a);
  const double logarithm =
      a * std::log(x) + b * std::log1p(-x) + std::lgamma(a + b) - std::lgamma(a) - std::lgamma(b);
  return std::exp(logarithm) / a * beta_fraction(x, a, b);
}

double student_two_sided(double t, double degrees) {
  return incomplete_beta(degrees / (degrees + t * t), degrees / 2, 0.5);
}

double student_upper(double t, double degrees) {
  const double half = 0.5 * student_two_sided(t, degrees);
  return t >= 0 ? half : 1 - half;
}

double student_quantile(double p, double degrees) {
  // The probability falls with t: double the upper end until it is passed, then bisect.
  double low = 0, high = 1;
  while (student_two_sided(high, degrees) > p) {
    low = high;
    high *= 2;
  }
  while (high - low > 1e-13 * high) {
    const double middle = low + (high - low) / 2;
    if (middle == low || middle == high) break;
    (student_two_sided(middle, degrees) > p ? low : high) = middle;
  }
  return high;
}

double dunnett_two_sided(double t, double degrees, std::span<const double> weights) {
  const std::vector<Comparisons> comparisons = counted(weights);
  // Over u = log S, whose density 2 (d / 2)^(d / 2) / Gamma(d / 2) exp(d u - d exp(2 u) / 2) falls
  // exponentially on the left and faster on the right: the trapezoidal rule again.
  const double half = degrees / 2;
  const double constant = std::numbers::ln2 + half * std::log(half) - std::lgamma(half);
  const auto at = [&](double u) {
    const double s = std::exp(u);
    const double density = std::exp(constant + degrees * (u - 0.5 * s * s));
    return density * normal_maximum(std::abs(t) * s, comparisons);
  };
  const double step = std::min(0.125, 0.35 / std::sqrt(degrees));
  double sum = at(0);
  for (const double direction : {-step, step}) {
    for (int i = 1; i <= kMaxTerms; ++i) {
      const double term = at(i * direction);
      sum += term;
      if (term < kNegligible * sum) break;
    }
  }
  return std::min(1.0, sum * step);
}

double dunnett_quantile(double p, double degrees, std::span<const double> weights) {
  // Between the quantiles of one comparison and of as many independent probabilities as a sum
  // (Bonferroni). The logarithm of the probability is nearly linear there: the Illinois form of the
  // rule of false position.
  const auto above = [&](double t) {
    return std::log(dunnett_two_sided(t, degrees, weights)) - std::log(p);
  };
  double low = student_quantile(p, degrees);
  double high = student_quantile(p / static_cast<double>(weights.size()), degrees);
  double at_low = above(low), at_high = above(high);
  if (at_low <= 0) return low;
  if (at_high >= 0) return high;
  int side = 0;
  while (high - low > 1e-9 * high) {
    const double t = (low * at_high - high * at_low) / (at_high - at_low);
    if (!(t > low && t < high)) break;
    const double value = above(t);
    if (std::abs(value) < 1e-12) return t;
    if (value > 0) {
      low = t;
      at_low = value;
      if (side == 1) at_high /= 2;
      side = 1;
    } else {
      high = t;
      at_high = value;
      if (side == -1) at_low /= 2;
      side = -1;
    }
  }
  return low + (high - low) / 2;
}

double chi_square_upper(double x, double degrees) {
  if (x <= 0) return 1;
  if (std::isinf(x)) return 0;
  const double a = degrees / 2, half = x / 2;
  const double factor = std::exp(a * std::log(half) - half - std::lgamma(a));
  return half < a + 1 ? 1 - factor * gamma_series(a, half) : factor * gamma_fraction(a, half);
}

}  // namespace eqt::report
