// SPDX-License-Identifier: Apache-2.0
// Which grade each slice gets: the shortest step whose added noise stays below a limit.
//
// Symbols  a slice costs `bytes` and adds `noise` to the mean with each grade; x_0, x_1, ... the
//          assignments that follow from each other by the steps of all slices' lower convex hulls,
//          steepest first
// Law      no assignment has at most the bytes of an x_e and less noise

#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace eqt::adaptation {

struct GradeCost {
  double bytes = 0;
  double noise = 0;  // variance
};

/// A grade for each slice.
using Assignment = std::vector<std::size_t>;

/// Holds costs by slice, then by grade.
using GradeCosts = std::vector<std::vector<GradeCost>>;

/// Variances that may be added.
struct NoiseLimits {
  double total = 0;              // by all slices together
  std::vector<double> by_slice;  // the grade with the least noise is always allowed
};

/// The grades on the lower convex hull, from the fewest bytes to the least noise.
std::vector<std::size_t> lower_hull(std::span<const GradeCost> grades);

/// The hulls of what the limits of slices allow.
std::vector<std::vector<std::size_t>> allowed_hulls(const GradeCosts& costs,
                                                    std::span<const double> limits);

double bytes_of(const GradeCosts& costs, const Assignment& assignment);
double noise_of(const GradeCosts& costs, const Assignment& assignment);

struct GradeChoice {
  Assignment assignment;
  double seconds = 0;
  bool admissible = false;  // its noise is within limits.total
};

/// Chooses among x_0, x_1, ... those within limits.total; of these the ones that take at most
/// 1 + `tie` times as long as the fastest; of these the one with the least noise. If none is within
/// the limit, it is the one with the least noise of all.
/// @param seconds of a step with this assignment
/// @pre at least one slice, each with at least one grade
GradeChoice choose_grades(const GradeCosts& costs, const NoiseLimits& limits,
                          const std::function<double(const Assignment&)>& seconds, double tie);

/// `from` with each slice moved by at most one step of its hull towards `to`.
Assignment one_step_towards(const GradeCosts& costs,
                            const std::vector<std::vector<std::size_t>>& hulls,
                            const Assignment& from, const Assignment& to);

/// The grades that slices have, and how long they have had them.
struct PresentGrades {
  Assignment grades;
  std::uint64_t decisions = 0;  // so far
  std::uint64_t since = 0;      // decisions since the last change
};

/// Returns true if the present grades add more noise than the limit by a quarter, and `choice` adds
/// less.
bool breaks_limit(const GradeCosts& costs, const NoiseLimits& limits, const GradeChoice& choice,
                  const Assignment& present);

/// Returns true if `seconds` is so far below `present` that a change is worth it at once.
bool is_much_faster(double seconds, double present);

/// The next grades: `choice`, unless the present ones are nearly as good or were changed by the
/// last decision; from the second decision on a slice moves by one step of its hull where that is
/// within the limit. If the present ones break the limit, `choice` at once.
/// @param seconds, tie as of choose_grades()
Assignment settle_grades(const GradeCosts& costs, const NoiseLimits& limits,
                         const GradeChoice& choice, const PresentGrades& present,
                         const std::function<double(const Assignment&)>& seconds, double tie);

}  // namespace eqt::adaptation
