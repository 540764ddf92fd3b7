// SPDX-License-Identifier: Apache-2.0
// Means and deviations over runs that differ only in their seed.

#pragma once

#include <cstddef>
#include <optional>
#include <span>

namespace eqt::report {

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

/// Mean and sample standard deviation sqrt(sum (x - mean)^2 / (n - 1)) of the figures that exist
/// and are finite.
Spread spread_of(std::span<const Figure> figures);

/// The figure, or empty if it is not finite.
Figure finite(Figure figure);

}  // namespace eqt::report
