// SPDX-License-Identifier: Apache-2.0
// The least concave function above some points, for using Jensen's inequality on code lengths.

#pragma once

#include <utility>
#include <vector>

namespace eqt::theory {

class ConcaveHull {
 public:
  /// @pre points are sorted by x, which are distinct; at least one
  explicit ConcaveHull(const std::vector<std::pair<double, double>>& points);

  /// The hull at x; outside the points, the value at the nearest one.
  double operator()(double x) const;

  const std::vector<std::pair<double, double>>& corners() const { return corners_; }

 private:
  std::vector<std::pair<double, double>> corners_;
};

}  // namespace eqt::theory
