// SPDX-License-Identifier: Apache-2.0
#include "report/measured.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace eqt::report {
namespace {

constexpr int kMaxDigits = 6;                          // of a mean
constexpr int kSmallestPlain = -4, kLargestPlain = 6;  // powers of ten without an exponent

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

}  // namespace eqt::report
