// SPDX-License-Identifier: Apache-2.0
// Mean and deviation of numbers that come one by one, or in parts.

#pragma once

#include <cmath>

namespace eqt::data {

/// B. P. Welford, Technometrics 4 (1962), and for parts T. F. Chan, G. H. Golub, R. J. LeVeque,
/// "Updating formulae and a pairwise algorithm for computing sample variances", 1979, eq. (2.1).
struct Moments {
  double count = 0;
  double mean = 0;
  double squares = 0;  // sum of squared differences from the mean

  void add(double value) {
    count += 1;
    const double difference = value - mean;
    mean += difference / count;
    squares += difference * (value - mean);
  }
  void add(const Moments& part) {
    if (part.count == 0) return;
    const double sum = count + part.count, difference = part.mean - mean;
    squares += part.squares + difference * difference * (count / sum) * part.count;
    mean += difference * (part.count / sum);
    count = sum;
  }
  /// Returns the deviation of the whole population, for which the squares are divided by the count.
  double deviation() const { return count == 0 ? 0 : std::sqrt(squares / count); }
};

}  // namespace eqt::data
