// SPDX-License-Identifier: Apache-2.0
// Which plans nothing beats in time and price, or in time and energy.

#pragma once

#include <optional>
#include <span>
#include <vector>

namespace eqt::planner {

/// Two figures of which less is better.
struct Tradeoff {
  double seconds = 0, cost = 0;
};

/// Returns for each whether no other has at most its seconds and at most its cost, and one of them
/// less. Of equal ones at most the first is on the front. Those without figures are not on it.
std::vector<bool> pareto_front(std::span<const std::optional<Tradeoff>> all);

}  // namespace eqt::planner
