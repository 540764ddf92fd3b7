// SPDX-License-Identifier: Apache-2.0
#include "report/welch.hpp"

#include <cmath>

namespace eqt::report {
namespace {

/// 1 / (1 + d1 / (1 + d2 / (1 + ...))) of Abramowitz and Stegun, 26.5.8; it converges quickly for
/// x < (a + 1) / (a + b + 2).
double beta_fraction(double x, double a, double b) {
  constexpr double kTiny = 1e-300, kEnough = 1e-15;
  constexpr int kMaxTerms = 10000;
  const auto not_zero = [](double value) { return std::abs(value) < kTiny ? kTiny : value; };
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

std::optional<Welch> welch_test(const Spread& a, const Spread& b) {
  if (!a.deviation || !b.deviation) return {};
  const auto count = [](const Spread& s) { return static_cast<double>(s.known); };
  const double of_a = *a.deviation * *a.deviation / count(a);
  const double of_b = *b.deviation * *b.deviation / count(b);
  const double sum = of_a + of_b;
  if (!(sum > 0)) return {};
  Welch test;
  test.error = std::sqrt(sum);
  test.t = (a.mean - b.mean) / test.error;
  // Relative to the sum, so that squares of small variances do not underflow.
  const double share_a = of_a / sum, share_b = of_b / sum;
  test.degrees = 1 / (share_a * share_a / (count(a) - 1) + share_b * share_b / (count(b) - 1));
  test.p = student_two_sided(test.t, test.degrees);
  return test;
}

}  // namespace eqt::report
