// SPDX-License-Identifier: Apache-2.0
// exp and log from basic IEEE operations only, so that every rank computes the same level table
// with any C library. Relative error below 1e-14 in the range used here (|x| < 700).

#pragma once

#include <cmath>

namespace eqt::codec {

inline constexpr double kLn2 = 0.693147180559945309417232121458;

/// e^x.
inline double ieee_exp(double x) noexcept {
  const double k = std::floor(x / kLn2 + 0.5);
  const double r = x - k * kLn2;
  // |r| <= 0.35: the 18th term is below 1e-24.
  double sum = 1, term = 1;
  for (int i = 1; i < 18; ++i) {
    term *= r / i;
    sum += term;
  }
  return std::ldexp(sum, static_cast<int>(k));
}

/// Natural logarithm of x > 0.
inline double ieee_log(double x) noexcept {
  int exponent = 0;
  const double m = std::frexp(x, &exponent);  // [0.5, 1)
  // ln m = 2 artanh(z); |z| <= 1/3, so the 40th power is below 1e-19.
  const double z = (m - 1) / (m + 1);
  double sum = 0, power = z;
  for (int i = 1; i < 41; i += 2) {
    sum += power / i;
    power *= z * z;
  }
  return 2 * sum + exponent * kLn2;
}

inline double ieee_sinh(double x) noexcept {
  if (std::abs(x) > 0.5) {
    const double e = ieee_exp(x);
    return (e - 1 / e) / 2;
  }
  double sum = x, term = x;  // the difference above would cancel
  for (int i = 2; i < 20; i += 2) {
    term *= x * x / (i * (i + 1));
    sum += term;
  }
  return sum;
}

inline double ieee_asinh(double x) noexcept { return ieee_log(x + std::sqrt(x * x + 1)); }

/// The minimiser of a unimodal f on [low, high], by golden section.
template <typename F>
double golden_section(F f, double low, double high, int steps = 90) {
  constexpr double kRatio = 0.618033988749894848204586834366;
  double a = high - kRatio * (high - low), b = low + kRatio * (high - low);
  double fa = f(a), fb = f(b);
  for (int i = 0; i < steps; ++i) {
    if (fa < fb) {
      high = b;
      b = a;
      fb = fa;
      a = high - kRatio * (high - low);
      fa = f(a);
    } else {
      low = a;
      a = b;
      fa = fb;
      b = low + kRatio * (high - low);
      fb = f(b);
    }
  }
  return (low + high) / 2;
}

}  // namespace eqt::codec
