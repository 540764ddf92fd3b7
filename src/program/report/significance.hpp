// SPDX-License-Identifier: Apache-2.0
// Welch's t-test tells whether groups of runs differ from float32's by more than their seeds do;
// each is compared with a group that is its baseline.

#pragma once

#include <optional>
#include <vector>

#include "figures/statistics.hpp"
#include "report/group.hpp"

namespace eqt::report {

using figures::Spread;

/// Welch's t-test of the means of a and b.
struct Welch {
  double error = 0;    // standard error of the difference mean a - mean b
  double t = 0;        // difference / error
  double degrees = 0;  // of freedom, by Welch and Satterthwaite; at least 1 in use, not whole
  double p = 1;        // probability of such a t or a larger one, of either sign, for equal means
};

/// Source: B. L. Welch, "The generalization of 'Student's' problem when several different
/// population variances are involved", Biometrika 34 (1947): with s^2 the sample variance and n the
/// runs, t = (a - b) / sqrt(s_a^2 / n_a + s_b^2 / n_b) and degrees = (s_a^2 / n_a + s_b^2 / n_b)^2
/// /
///           ((s_a^2 / n_a)^2 / (n_a - 1) + (s_b^2 / n_b)^2 / (n_b - 1)).
/// Empty if one of them has fewer than two figures, or neither has a deviation.
std::optional<Welch> welch_test(const Spread& a, const Spread& b);

/// P(|T| >= |t|) of Student's distribution: I_x(degrees / 2, 1 / 2) at x = degrees / (degrees +
/// t^2) (M. Abramowitz, I. A. Stegun, "Handbook of Mathematical Functions", 26.7.1 and 26.5.2).
/// @pre degrees > 0
double student_two_sided(double t, double degrees);

/// The t >= 0 with student_two_sided(t, degrees) = p, within 1e-12 of its value: mean difference
/// ± t(1 - level) * error is the confidence interval of the level.
/// @pre 0 < p < 1, degrees > 0
double student_quantile(double p, double degrees);

/// I_x(a, b), the regularised incomplete beta function, within 1e-12: the continued fraction
/// of Abramowitz and Stegun, 26.5.8, by Lentz's method (Applied Optics 15, 1976).
/// @pre 0 <= x <= 1, a > 0, b > 0
double incomplete_beta(double x, double a, double b);

/// The group that sends float32 and is nearest to `group`: it differs in the fewest settings
/// besides the compressor's own. For a group of float32 runs with gossip or local SGD, it is the
/// nearest one that averages gradients in each step. Null if there is none, or if several are
/// equally near.
const Group* baseline_of(const Group& group, const std::vector<Group>& groups);

}  // namespace eqt::report
