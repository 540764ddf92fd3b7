// SPDX-License-Identifier: Apache-2.0
// The choice of grades against brute force, and its laws.

#include <algorithm>
#include <cmath>
#include <random>

#include "adaptation/grade_choice.hpp"
#include "support/catch.hpp"

using namespace eqt::adaptation;

namespace {

/// Costs of up to 5 slices with the same number of up to 5 grades.
GradeCosts random_costs(std::mt19937& random, std::size_t slices, std::size_t grades) {
  std::uniform_real_distribution<double> exponent(-6, 0);
  GradeCosts costs(slices);
  for (auto& slice : costs)
    for (std::size_t g = 0; g < grades; ++g)
      slice.push_back(
          {.bytes = 1000 * std::exp(exponent(random)), .noise = std::exp(exponent(random))});
  return costs;
}

NoiseLimits no_caps(const GradeCosts& costs, double total) {
  return {.total = total, .by_slice = std::vector<double>(costs.size(), 1e300)};
}

template <typename Check>
void for_every_assignment(const GradeCosts& costs, Check&& check) {
  Assignment all(costs.size(), 0);
  for (;;) {
    check(all);
    std::size_t s = 0;
    while (s < all.size() && ++all[s] == costs[s].size()) all[s++] = 0;
    if (s == all.size()) return;
  }
}

double by_bytes(const GradeCosts& costs, const NoiseLimits& limits, Assignment* taken = nullptr) {
  const GradeChoice choice = choose_grades(
      costs, limits, [&](const Assignment& a) { return bytes_of(costs, a); }, 0);
  if (taken != nullptr) *taken = choice.assignment;
  return choice.seconds;
}

}  // namespace

TEST_CASE("a hull has only points below every line between two others", "[grades]") {
  const std::vector<GradeCost> grades = {{8, 0}, {1, 10}, {2, 6}, {3, 5}, {4, 1}, {5, 3}, {1, 12}};
  CHECK(lower_hull(grades) == std::vector<std::size_t>{1, 2, 4, 0});
  CHECK(lower_hull(std::vector<GradeCost>{{3, 1}}) == std::vector<std::size_t>{0});
  CHECK(lower_hull(std::vector<GradeCost>{{3, 1}, {3, 1}}) == std::vector<std::size_t>{0});
}

TEST_CASE("no assignment has as few bytes and less noise than a chosen one", "[grades]") {
  std::mt19937 random(1);
  std::uniform_int_distribution<std::size_t> size(1, 5);
  for (int i = 0; i < 300; ++i) {
    const GradeCosts costs = random_costs(random, size(random), size(random));
    double most = 0;
    for (const auto& slice : costs) most += std::ranges::max(slice, {}, &GradeCost::noise).noise;
    const double limit = most * std::uniform_real_distribution<double>(0, 1)(random);
    Assignment taken;
    const NoiseLimits limits = no_caps(costs, limit);
    by_bytes(costs, limits, &taken);
    const double bytes = bytes_of(costs, taken), noise = noise_of(costs, taken);
    bool beaten = false, possible = false;
    for_every_assignment(costs, [&](const Assignment& other) {
      possible |= noise_of(costs, other) <= limit * (1 - 1e-12);
      beaten |= bytes_of(costs, other) <= bytes && noise_of(costs, other) < noise * (1 - 1e-12);
    });
    CHECK_FALSE(beaten);
    if (possible) CHECK(noise <= limit);
  }
}

TEST_CASE("a larger limit never sends more bytes", "[grades]") {
  std::mt19937 random(2);
  for (int i = 0; i < 200; ++i) {
    const GradeCosts costs = random_costs(random, 4, 4);
    double before = 1e300;
    for (double limit = 0.001; limit < 8; limit *= 1.5) {
      const GradeChoice choice = choose_grades(
          costs, no_caps(costs, limit), [&](const Assignment& a) { return bytes_of(costs, a); }, 0);
      if (!choice.admissible) continue;
      CHECK(choice.seconds <= before);
      before = choice.seconds;
    }
  }
}

TEST_CASE("a faster link never makes grades coarser", "[grades]") {
  std::mt19937 random(3);
  for (int i = 0; i < 200; ++i) {
    const GradeCosts costs = random_costs(random, 4, 5);
    double noise = 1e300;
    for (double rate = 1; rate < 1e6; rate *= 2) {
      const GradeChoice choice = choose_grades(
          costs, no_caps(costs, 2),
          [&](const Assignment& a) { return 1 + std::max(2.0, bytes_of(costs, a) / rate); }, 0.02);
      CHECK(noise_of(costs, choice.assignment) <= noise * (1 + 1e-12));
      noise = noise_of(costs, choice.assignment);
    }
    // At last everything hides: the least noise of all.
    double least = 0;
    for (const auto& slice : costs) least += std::ranges::min(slice, {}, &GradeCost::noise).noise;
    CHECK(noise == Approx(least));
  }
}

TEST_CASE("scaling all noise and its limit changes no grade", "[grades]") {
  std::mt19937 random(4);
  for (int i = 0; i < 100; ++i) {
    GradeCosts costs = random_costs(random, 5, 5);
    Assignment before, after;
    by_bytes(costs, no_caps(costs, 0.7), &before);
    for (auto& slice : costs)
      for (GradeCost& grade : slice) grade.noise *= 0.25;
    by_bytes(costs, no_caps(costs, 0.25 * 0.7), &after);
    CHECK(before == after);
  }
}

TEST_CASE("a slice's own limit drops its coarse grades, but never the finest", "[grades]") {
  const GradeCosts costs = {{{1, 9}, {2, 4}, {4, 1}}, {{1, 9}, {2, 4}, {4, 1}}};
  Assignment taken;
  by_bytes(costs, {.total = 100, .by_slice = {5, 100}}, &taken);
  CHECK(taken == Assignment{1, 0});
  by_bytes(costs, {.total = 100, .by_slice = {0.5, 100}}, &taken);
  CHECK(taken == Assignment{2, 0});
}

TEST_CASE("if no assignment is within the limit the one with the least noise is taken",
          "[grades]") {
  const GradeCosts costs = {{{1, 9}, {2, 4}, {4, 1}}};
  const GradeChoice choice = choose_grades(
      costs, no_caps(costs, 0), [&](const Assignment& a) { return bytes_of(costs, a); }, 0);
  CHECK_FALSE(choice.admissible);
  CHECK(choice.assignment == Assignment{2});
}

TEST_CASE("a slice moves one step of its hull", "[grades]") {
  const GradeCosts costs = {{{1, 9}, {2, 4}, {4, 1}, {8, 0}}, {{1, 9}, {2, 4}, {4, 1}, {8, 0}}};
  const auto hulls = allowed_hulls(costs, std::vector<double>{100, 100});
  CHECK(one_step_towards(costs, hulls, {0, 3}, {3, 0}) == Assignment{1, 2});
  CHECK(one_step_towards(costs, hulls, {1, 1}, {1, 2}) == Assignment{1, 2});
  // From a grade that is not allowed any more: from the first that sends as many bytes.
  const auto capped = allowed_hulls(costs, std::vector<double>{5, 100});
  CHECK(one_step_towards(costs, capped, {0, 0}, {3, 0}) == Assignment{2, 0});
}

TEST_CASE("a limit is broken by more than a quarter, if that can be mended", "[grades]") {
  const GradeCosts costs = {{{1, 9}, {2, 4}, {4, 1}}};
  const GradeChoice finer = {.assignment = {2}};
  CHECK(breaks_limit(costs, no_caps(costs, 3.1), finer, {1}));
  CHECK_FALSE(breaks_limit(costs, no_caps(costs, 3.3), finer, {1}));
  CHECK_FALSE(breaks_limit(costs, no_caps(costs, 0.1), finer, {2}));
  CHECK(is_much_faster(0.7, 1));
  CHECK_FALSE(is_much_faster(0.8, 1));
}
