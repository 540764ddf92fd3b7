// SPDX-License-Identifier: Apache-2.0
#include "theory/concave_hull.hpp"

#include <algorithm>

#include "core/error.hpp"

namespace eqt::theory {

ConcaveHull::ConcaveHull(const std::vector<std::pair<double, double>>& points) {
  EQT_CHECK(!points.empty(), "a hull of {} points", points.size());
  for (const auto& [x, y] : points) {
    while (corners_.size() >= 2) {
      const auto& [x1, y1] = corners_[corners_.size() - 2];
      const auto& [x2, y2] = corners_.back();
      if ((y2 - y1) * (x - x1) > (y - y1) * (x2 - x1)) break;
      corners_.pop_back();
    }
    corners_.emplace_back(x, y);
  }
}

double ConcaveHull::operator()(double x) const {
  if (x <= corners_.front().first) return corners_.front().second;
  if (x >= corners_.back().first) return corners_.back().second;
  const auto above =
      std::upper_bound(corners_.begin(), corners_.end(), x,
                       [](double value, const auto& corner) { return value < corner.first; });
  const auto& [x2, y2] = *above;
  const auto& [x1, y1] = *(above - 1);
  return y1 + (y2 - y1) * (x - x1) / (x2 - x1);
}

}  // namespace eqt::theory
