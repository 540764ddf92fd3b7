// SPDX-License-Identifier: Apache-2.0
#include "adaptation/grade_choice.hpp"

#include <algorithm>
#include <utility>

#include "core/error.hpp"
#include "core/lower_hull.hpp"

namespace eqt::adaptation {
namespace {

using Hulls = std::vector<std::vector<std::size_t>>;

/// A step along a hull.
struct Edge {
  std::size_t slice = 0;
  double slope = 0;  // noise saved by a byte more
};

double slope(const GradeCost& from, const GradeCost& to) {
  return (from.noise - to.noise) / (to.bytes - from.bytes);
}

/// All hulls' edges, steepest first; those of a slice stay in its order.
std::vector<Edge> sorted_edges(const GradeCosts& costs, const Hulls& hulls) {
  std::vector<Edge> edges;
  for (std::size_t s = 0; s < hulls.size(); ++s)
    for (std::size_t i = 0; i + 1 < hulls[s].size(); ++i)
      edges.push_back({s, slope(costs[s][hulls[s][i]], costs[s][hulls[s][i + 1]])});
  std::ranges::stable_sort(edges, std::ranges::greater(), &Edge::slope);
  return edges;
}

/// Returns a grade's place on the hull, or the first place that sends as many bytes.
std::size_t place_of(std::span<const GradeCost> costs, std::span<const std::size_t> hull,
                     std::size_t grade) {
  const auto found = std::ranges::find(hull, grade);
  if (found != hull.end()) return static_cast<std::size_t>(found - hull.begin());
  for (std::size_t i = 0; i < hull.size(); ++i)
    if (costs[hull[i]].bytes >= costs[grade].bytes) return i;
  return hull.size() - 1;
}

double sum_of(const GradeCosts& costs, const Assignment& assignment, double GradeCost::*part) {
  double sum = 0;
  for (std::size_t s = 0; s < costs.size(); ++s) sum += costs[s][assignment[s]].*part;
  return sum;
}

}  // namespace

std::vector<std::size_t> lower_hull(std::span<const GradeCost> grades) {
  return eqt::lower_hull(grades, &GradeCost::bytes, &GradeCost::noise);
}

Hulls allowed_hulls(const GradeCosts& costs, std::span<const double> limits) {
  Hulls hulls;
  for (std::size_t s = 0; s < costs.size(); ++s) {
    const std::vector<GradeCost>& all = costs[s];
    const double least = std::ranges::min(all, {}, &GradeCost::noise).noise;
    std::vector<std::size_t> kept;
    std::vector<GradeCost> allowed;
    for (std::size_t g = 0; g < all.size(); ++g) {
      if (all[g].noise > limits[s] && all[g].noise > least) continue;
      kept.push_back(g);
      allowed.push_back(all[g]);
    }
    std::vector<std::size_t> hull = lower_hull(allowed);
    for (std::size_t& g : hull) g = kept[g];
    hulls.push_back(std::move(hull));
  }
  return hulls;
}

double bytes_of(const GradeCosts& costs, const Assignment& assignment) {
  return sum_of(costs, assignment, &GradeCost::bytes);
}

double noise_of(const GradeCosts& costs, const Assignment& assignment) {
  return sum_of(costs, assignment, &GradeCost::noise);
}

GradeChoice choose_grades(const GradeCosts& costs, const NoiseLimits& limits,
                          const std::function<double(const Assignment&)>& seconds, double tie) {
  EQT_CHECK(!costs.empty() && limits.by_slice.size() == costs.size(), "{} limits for {} slices",
            limits.by_slice.size(), costs.size());
  const Hulls hulls = allowed_hulls(costs, limits.by_slice);
  std::vector<std::size_t> places(costs.size(), 0);
  Assignment now;
  for (const auto& hull : hulls) now.push_back(hull.front());
  std::vector<GradeChoice> admissible;
  const auto consider = [&] {
    if (noise_of(costs, now) <= limits.total) admissible.push_back({now, seconds(now), true});
  };
  consider();
  for (const Edge& edge : sorted_edges(costs, hulls)) {
    now[edge.slice] = hulls[edge.slice][++places[edge.slice]];
    consider();
  }
  if (admissible.empty()) return {now, seconds(now), false};
  const double fastest = std::ranges::min(admissible, {}, &GradeChoice::seconds).seconds;
  const auto last = std::find_if(admissible.rbegin(), admissible.rend(), [&](const GradeChoice& c) {
    return c.seconds <= (1 + tie) * fastest;
  });
  return *last;
}

Assignment one_step_towards(const GradeCosts& costs, const Hulls& hulls, const Assignment& from,
                            const Assignment& to) {
  Assignment moved;
  for (std::size_t s = 0; s < costs.size(); ++s) {
    const std::size_t place = place_of(costs[s], hulls[s], from[s]);
    const std::size_t target = place_of(costs[s], hulls[s], to[s]);
    const std::size_t next = target > place ? place + 1 : target < place ? place - 1 : place;
    moved.push_back(hulls[s][next]);
  }
  return moved;
}

bool breaks_limit(const GradeCosts& costs, const NoiseLimits& limits, const GradeChoice& choice,
                  const Assignment& present) {
  constexpr double kBroken = 1.25;
  const double now = noise_of(costs, present);
  return now > kBroken * limits.total && noise_of(costs, choice.assignment) < now;
}

bool is_much_faster(double seconds, double present) {
  constexpr double kGain = 0.25;
  return seconds < (1 - kGain) * present;
}

Assignment settle_grades(const GradeCosts& costs, const NoiseLimits& limits,
                         const GradeChoice& choice, const PresentGrades& present,
                         const std::function<double(const Assignment&)>& seconds, double tie) {
  constexpr double kGain = 0.05;          // of seconds or bytes, below which a table stays
  constexpr double kQuieter = 0.2;        // of noise at equal seconds, likewise
  constexpr std::uint64_t kPatience = 2;  // decisions between changes
  const Assignment& now = present.grades;
  if (present.decisions == 0) return choice.assignment;
  if (breaks_limit(costs, limits, choice, now)) return choice.assignment;
  if (present.since + 1 < kPatience) return now;
  const double seconds_now = seconds(now);
  const bool faster = choice.seconds < (1 - kGain) * seconds_now;
  const bool as_fast = choice.seconds <= (1 + tie) * seconds_now;
  const bool smaller = bytes_of(costs, choice.assignment) < (1 - kGain) * bytes_of(costs, now);
  const bool quieter = noise_of(costs, choice.assignment) < (1 - kQuieter) * noise_of(costs, now);
  if (!faster && !(as_fast && (smaller || quieter))) return now;
  Assignment moved =
      one_step_towards(costs, allowed_hulls(costs, limits.by_slice), now, choice.assignment);
  return noise_of(costs, moved) <= limits.total ? moved : choice.assignment;
}

}  // namespace eqt::adaptation
