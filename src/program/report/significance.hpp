// SPDX-License-Identifier: Apache-2.0
// Tests tell whether groups of runs differ from a baseline by more than their seeds do, and whether
// they are shown to be as good: Welch's t-test, Dunnett's with pooled variance, the paired t-test
// of runs with the same seed, and two one-sided tests of equivalence.

#pragma once

#include <optional>
#include <string>
#include <vector>

#include "figures/statistics.hpp"
#include "figures/table.hpp"
#include "report/group.hpp"

namespace eqt::report {

using figures::Spread;

/// A t-test says whether two means, a and b, are equal.
struct TTest {
  double error = 0;    // standard error of the difference mean a - mean b
  double t = 0;        // difference / error
  double degrees = 0;  // of freedom; at least 1 in use, and Welch's are not whole
  double p = 1;        // probability of such a t or a larger one, of either sign, for equal means
};

/// Returns Welch's test of two groups by themselves, with his and Satterthwaite's degrees.
/// Source: B. L. Welch, "The generalization of 'Student's' problem when several different
/// population variances are involved", Biometrika 34 (1947): with s^2 the sample variance and n the
/// runs, t = (a - b) / sqrt(s_a^2 / n_a + s_b^2 / n_b) and degrees = (s_a^2 / n_a + s_b^2 / n_b)^2
/// /
///           ((s_a^2 / n_a)^2 / (n_a - 1) + (s_b^2 / n_b)^2 / (n_b - 1)).
/// Empty if one of them has fewer than two figures, or neither has a deviation.
std::optional<TTest> welch_test(const Spread& a, const Spread& b);

/// Returns the test of n pairs by the spread of their differences a_i - b_i: error = s / sqrt(n)
/// and n - 1 degrees. Where a pair has its chance in common, as runs with the same first parameters
/// and order of samples may, the error is smaller than Welch's.
/// Source: Student, "The probable error of a mean", Biometrika 6 (1908), section IX. Empty with
/// fewer than two pairs, or if all differences are equal.
std::optional<TTest> paired_test(const Spread& differences);

/// Returns the p of two one-sided tests: the probability of means that lie so clearly inside
/// -margin to margin if the true difference a - b were at one of the two. At most 0.05: the 90 %
/// interval of the difference is inside, and a and b are equivalent to within the margin.
/// Source: D. J. Schuirmann, "A comparison of the two one-sided tests procedure and the power
/// approach for assessing the equivalence of average bioavailability", Journal of Pharmacokinetics
/// and Biopharmaceutics 15 (1987); with the error and the degrees of freedom of `test`.
/// @pre margin > 0
double equivalence_p(double difference, const TTest& test, double margin);

/// The variance that several groups have in common.
struct PooledVariance {
  double deviation = 0;  // sqrt(sum (n - 1) s^2 / sum (n - 1))
  double degrees = 0;    // of freedom: sum (n - 1)
  double equal_p = 1;    // of Bartlett's test that all have this variance; 0 if one has none
};

/// Bartlett's test: M. S. Bartlett, "Properties of sufficiency and statistical tests", Proceedings
/// of the Royal Society A 160 (1937). Empty if fewer than two groups have a deviation, or all have
/// none. Groups of one run do not count.
std::optional<PooledVariance> pooled_variance(const std::vector<Spread>& groups);

/// Groups are compared with these.
struct Baseline {
  std::string row;  // the label of the baseline of all others; "": each has the float32 runs that
                    // are nearest in their settings
  // Differences below it do not matter [points of percentages; per cent of the baseline's mean
  // otherwise].
  double margin = 0.5;
};

/// Returns tables of the main figure and of the training loss, as far as they have rows: a row per
/// group that has a baseline, both with several runs; of each figure a second table, of the runs
/// whose seeds both have.
/// @throws Error{usage} if no row has the name, with those that there are; if it has not come to
/// its end
std::vector<figures::Table> significance_tables(const std::vector<Group>& groups,
                                                const Baseline& baseline);

/// The group that sends float32 and is nearest to `group`: it differs in the fewest settings
/// besides the compressor's own. For a group of float32 runs with gossip or local SGD, it is the
/// nearest one that averages gradients in each step. Null if there is none, or if several are
/// equally near.
const Group* baseline_of(const Group& group, const std::vector<Group>& groups);

}  // namespace eqt::report
