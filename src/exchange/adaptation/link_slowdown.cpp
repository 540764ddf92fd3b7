// SPDX-License-Identifier: Apache-2.0
#include "adaptation/link_slowdown.hpp"

#include <algorithm>
#include <cmath>

namespace eqt::adaptation {
namespace {

constexpr double kLeast = 1, kMost = 4096;
constexpr double kPrecision = 0.03;  // of predicted and measured seconds
constexpr double kRatio = 1.05;      // of neighbouring slowdowns that are told apart
// A link that suddenly is so much slower or faster has changed; else measurements are averaged.
constexpr double kChanged = 1.5;
constexpr double kKept = 0.7;

/// The greatest slowdown with at most these seconds. @pre seconds(kLeast) <= limit
double greatest(const std::function<double(double)>& seconds, double limit) {
  if (seconds(kMost) <= limit) return kMost;
  double low = kLeast, high = kMost;
  while (high > low * kRatio) {
    const double middle = std::sqrt(low * high);
    (seconds(middle) <= limit ? low : high) = middle;
  }
  return low;
}

}  // namespace

double link_slowdown(const std::function<double(double slowdown)>& seconds, double measured,
                     double present) {
  if (!(measured > 0)) return present;
  const double least = seconds(kLeast);
  if (seconds(kMost) <= least) return present;  // links have no part in it
  double low = kLeast, high = kLeast;
  if (least < measured * (1 - kPrecision)) low = greatest(seconds, measured * (1 - kPrecision));
  if (least <= measured * (1 + kPrecision)) high = greatest(seconds, measured * (1 + kPrecision));
  const double found = std::clamp(present, low, std::max(low, high));
  if (found > kChanged * present || present > kChanged * found) return found;
  return std::pow(present, kKept) * std::pow(found, 1 - kKept);
}

}  // namespace eqt::adaptation
