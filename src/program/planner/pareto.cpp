// SPDX-License-Identifier: Apache-2.0
#include "planner/pareto.hpp"

#include <algorithm>
#include <limits>
#include <tuple>

namespace eqt::planner {

std::vector<bool> pareto_front(std::span<const std::optional<Tradeoff>> all) {
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < all.size(); ++i)
    if (all[i]) order.push_back(i);
  std::ranges::sort(order, {},
                    [&](std::size_t i) { return std::tuple(all[i]->cost, all[i]->seconds, i); });
  std::vector<bool> front(all.size());
  double fastest = std::numeric_limits<double>::infinity();
  for (const std::size_t i : order) {
    front[i] = all[i]->seconds < fastest;
    fastest = std::min(fastest, all[i]->seconds);
  }
  return front;
}

}  // namespace eqt::planner
