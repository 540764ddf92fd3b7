// SPDX-License-Identifier: Apache-2.0
#include "figures/statistics.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

namespace eqt::figures {
namespace {

constexpr int kMaxDigits = 6;                          // of a mean
constexpr int kSmallestPlain = -4, kLargestPlain = 6;  // powers of ten without an exponent

constexpr double kRounding = 1e-12;  // of the largest value: what equal ones differ by

/// The power of ten of a number's first digit; x > 0.
int first_place(double x) { return static_cast<int>(std::floor(std::log10(x))); }

/// The power of ten of the last digit that a deviation supports.
int last_place(double deviation) {
  const int first = first_place(deviation);
  const double three = std::round(deviation / std::pow(10.0, first - 2));
  constexpr double kTwoDigits = 354, kRoundsUp = 1000;  // 9.996 is rounded to 10
  if (three >= kRoundsUp) return first;
  return three <= kTwoDigits ? first - 1 : first;
}

/// `x`, rounded to a power of ten.
std::string rounded_text(double x, int place) {
  if (place < 0) return fmt::format("{:.{}f}", x, -place);
  const double unit = std::pow(10.0, place);
  return fmt::format("{:.0f}", std::nearbyint(x / unit) * unit + 0.0);  // + 0.0: no "-0"
}

}  // namespace

std::optional<double> Spread::standard_error() const {
  if (!deviation) return {};
  return *deviation / std::sqrt(static_cast<double>(known));
}

Figure finite(Figure figure) { return figure && std::isfinite(*figure) ? figure : Figure(); }

Spread spread_of(std::span<const Figure> figures, double scale) {
  std::vector<double> known;
  for (const Figure& figure : figures)
    if (finite(figure)) known.push_back(*figure);
  Spread spread{known.size(), figures.size(), 0, {}};
  if (known.empty()) return spread;
  const double count = static_cast<double>(known.size());
  for (const double x : known) spread.mean += x / count;
  if (known.size() < 2) return spread;
  double squares = 0;  // around the mean: the sum of squares alone would cancel
  for (const double x : known) {
    squares += (x - spread.mean) * (x - spread.mean);
    scale = std::max(scale, std::abs(x));
  }
  const double deviation = std::sqrt(squares / (count - 1));
  spread.deviation = deviation > kRounding * scale ? deviation : 0;
  return spread;
}

std::string measured_text(double mean, double deviation) {
  int place = last_place(deviation);
  if (mean != 0) place = std::max(place, first_place(std::abs(mean)) - kMaxDigits + 1);
  const int first = first_place(std::max(std::abs(mean), deviation));
  const auto text = [&](int exponent) {
    const double scale = std::pow(10.0, -exponent);
    // The deviation is 0 if it does not reach the mean's digits.
    const bool reaches = deviation >= 0.5 * std::pow(10.0, place);
    return fmt::format("{} ± {}", rounded_text(mean * scale, place - exponent),
                       reaches ? rounded_text(deviation * scale, place - exponent) : "0");
  };
  if (first >= kSmallestPlain && first <= kLargestPlain) return text(0);
  return fmt::format("({})e{:+03}", text(first), first);
}

std::string deviation_text(double deviation) {
  const int first = first_place(deviation);
  const int place = last_place(deviation);
  if (first >= kSmallestPlain && first <= kLargestPlain) return rounded_text(deviation, place);
  return fmt::format("{:.{}e}", deviation, std::max(0, first - place));
}

}  // namespace eqt::figures
