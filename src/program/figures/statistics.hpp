// SPDX-License-Identifier: Apache-2.0
// Means and deviations over runs that differ only in their seed, and a mean's text with as many
// digits as its deviation supports.

#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>

namespace eqt::figures {

/// A figure of a run; empty if it was not recorded or was not finite.
using Figure = std::optional<double>;

/// The statistics of one figure over several runs.
struct Spread {
  std::size_t known = 0;            // runs that have the figure
  std::size_t asked = 0;            // all runs
  double mean = 0;                  // of those known
  std::optional<double> deviation;  // sample standard deviation, n - 1; empty: fewer than two

  /// Returns the standard error of the mean: deviation / sqrt(known).
  std::optional<double> standard_error() const;

  bool operator==(const Spread&) const = default;
};

/// Returns mean and sample standard deviation sqrt(sum (x - mean)^2 / (n - 1)) of the figures that
/// exist and are finite. Figures that differ by nothing but rounding have a deviation of 0.
/// @param scale of the numbers that they were computed from, if those were larger
Spread spread_of(std::span<const Figure> figures, double scale = 0);

/// The figure, or empty if it is not finite.
Figure finite(Figure figure);

/// "84.8 ± 0.4": the deviation has two digits if its first three are between 100 and 354, one up
/// to 949, and above that it is rounded up to 1000 and has two. The mean has the same decimal
/// place, but at most six digits. Very large and very small values share an exponent:
/// "(1.23 ± 0.12)e-09".
/// Source: Particle Data Group, Review of Particle Physics (2022), introduction, 5.3 "Rounding".
/// @pre deviation > 0, both finite
std::string measured_text(double mean, double deviation);

/// The digits of the deviation by the same rule, without the mean.
/// @pre deviation > 0, finite
std::string deviation_text(double deviation);

}  // namespace eqt::figures
