// SPDX-License-Identifier: Apache-2.0
// The lower convex hull of points in a plane.

#pragma once

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

namespace eqt {

/// The points on the lower convex hull, by index, from the least x to the least y. Of equal points
/// the first one.
/// @param x, y members of a point, as numbers
template <typename Point>
std::vector<std::size_t> lower_hull(std::span<const Point> points, double Point::*x,
                                    double Point::*y) {
  std::vector<std::size_t> order(points.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, {},
                           [&](std::size_t i) { return std::pair(points[i].*x, points[i].*y); });
  const auto slope = [&](std::size_t from, std::size_t to) {
    return (points[from].*y - points[to].*y) / (points[to].*x - points[from].*x);
  };
  std::vector<std::size_t> hull;
  for (const std::size_t i : order) {
    // If two points have the same x, the one with less y came first.
    if (!hull.empty() && points[i].*y >= points[hull.back()].*y) continue;
    while (hull.size() >= 2) {
      const std::size_t a = hull[hull.size() - 2], b = hull.back();
      if (slope(a, b) > slope(b, i)) break;
      hull.pop_back();
    }
    hull.push_back(i);
  }
  return hull;
}

}  // namespace eqt
