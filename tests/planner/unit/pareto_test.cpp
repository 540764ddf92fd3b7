// SPDX-License-Identifier: Apache-2.0
// Fronts of time against cost, against the definition.

#include "planner/plans.hpp"

#include <random>

#include "support/catch.hpp"

namespace eqt::planner {
namespace {

bool beats(const Tradeoff& a, const Tradeoff& b) {
  return a.seconds <= b.seconds && a.cost <= b.cost && (a.seconds < b.seconds || a.cost < b.cost);
}

}  // namespace

TEST_CASE("nothing beats what is on the front", "[planner]") {
  const std::vector<std::optional<Tradeoff>> all = {Tradeoff{10, 1}, Tradeoff{5, 2}, Tradeoff{6, 2},
                                                    std::nullopt,    Tradeoff{5, 3}, Tradeoff{1, 9},
                                                    Tradeoff{10, 1}};
  CHECK(pareto_front(all) == std::vector<bool>{true, true, false, false, false, true, false});
  CHECK(pareto_front({}).empty());
}

TEST_CASE("a front of many is that of the definition", "[planner]") {
  std::mt19937 random(1);
  for (int round = 0; round < 20; ++round) {
    std::vector<std::optional<Tradeoff>> all;
    for (int i = 0; i < 30; ++i)
      all.push_back(
          Tradeoff{static_cast<double>(random() % 12), static_cast<double>(random() % 12)});
    const std::vector<bool> front = pareto_front(all);
    for (std::size_t i = 0; i < all.size(); ++i) {
      bool beaten = false;
      for (std::size_t j = 0; j < all.size(); ++j)
        beaten = beaten || beats(*all[j], *all[i]) ||
                 (j < i && all[j]->seconds == all[i]->seconds && all[j]->cost == all[i]->cost);
      CHECK(front[i] == !beaten);
    }
  }
}

}  // namespace eqt::planner
