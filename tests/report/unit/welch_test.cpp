// SPDX-License-Identifier: Apache-2.0
#include "report/significance.hpp"

#include <cmath>
#include <limits>
#include <vector>

#include "support/catch.hpp"

using namespace eqt::figures;
using namespace eqt::report;

TEST_CASE("Welch's test agrees with two published examples", "[report]") {
  // Expected: SciPy 1.17.1, ttest_ind(equal_var=False).
  const std::vector<Figure> a = {27.5, 21.0, 19.0, 23.6, 17.0, 17.9, 16.9, 20.1,
                                 21.9, 22.6, 23.1, 19.6, 19.0, 21.7, 21.4};
  const std::vector<Figure> b = {27.1, 22.0, 20.8, 23.4, 23.4, 23.5, 25.8, 22.0,
                                 24.8, 20.2, 21.9, 22.1, 22.9, 20.5, 24.4};
  const auto equal = welch_test(spread_of(a), spread_of(b));
  REQUIRE(equal);
  CHECK(equal->t == Approx(-2.455356398286006).epsilon(1e-12));
  CHECK(equal->degrees == Approx(24.988529290231416).epsilon(1e-12));
  CHECK(equal->p == Approx(0.021378001462866992).epsilon(1e-11));

  const std::vector<Figure> three = {0.848, 0.844, 0.852}, others = {0.853, 0.842, 0.865};
  const auto small = welch_test(spread_of(three), spread_of(others));
  REQUIRE(small);
  CHECK(small->t == Approx(-0.7584727410239425).epsilon(1e-11));
  CHECK(small->degrees == Approx(2.476659183430991).epsilon(1e-11));
  CHECK(small->p == Approx(0.5137621115363452).epsilon(1e-11));
  CHECK(welch_test(spread_of(others), spread_of(three))->t == -small->t);
}

TEST_CASE("Welch's test needs two runs each, and a deviation", "[report]") {
  const Spread one{1, 1, 0.5, {}}, two{2, 2, 0.5, 0.1}, still{2, 2, 0.5, 0.0};
  CHECK_FALSE(welch_test(one, two));
  CHECK_FALSE(welch_test(two, one));
  CHECK_FALSE(welch_test(still, still));
  const auto equal = welch_test(two, two);
  REQUIRE(equal);
  CHECK(equal->t == 0);
  CHECK(equal->p == 1);
  // One side without deviation: degrees are the other's.
  CHECK(welch_test(two, still)->degrees == Approx(1.0).epsilon(1e-14));
}

TEST_CASE("Student's distribution has the quantiles of its tables", "[report]") {
  // M. Abramowitz, I. A. Stegun, table 26.10: t of two-sided 0.05, 0.01 and 0.001, three digits
  // after the point.
  struct Row {
    double degrees, p, t;
  };
  for (const Row& row :
       {Row{1, 0.05, 12.706}, Row{2, 0.05, 4.303}, Row{4, 0.05, 2.776}, Row{10, 0.05, 2.228},
        Row{30, 0.05, 2.042}, Row{5, 0.01, 4.032}, Row{3, 0.001, 12.924}})
    CHECK(student_two_sided(row.t, row.degrees) == Approx(row.p).epsilon(1e-3));
  // Cauchy's at one degree: 1 - 2 atan(t) / pi.
  CHECK(student_two_sided(1, 1) == Approx(0.5).epsilon(1e-14));
  CHECK(student_two_sided(-2, 3) == student_two_sided(2, 3));
}

TEST_CASE("quantiles are those of the tables, and invert the probability", "[report]") {
  // As above; Cauchy's quantile at one degree is tan(pi / 2 (1 - p)).
  CHECK(student_quantile(0.05, 4) == Approx(2.776).epsilon(2e-4));
  CHECK(student_quantile(0.01, 5) == Approx(4.032).epsilon(2e-4));
  CHECK(student_quantile(0.05, 1) == Approx(12.706204736174698).epsilon(1e-10));
  for (const double p : {1e-6, 0.05, 0.5, 0.999})
    for (const double degrees : {1.0, 2.47, 30.0})
      CHECK(student_two_sided(student_quantile(p, degrees), degrees) == Approx(p).epsilon(1e-9));
}

TEST_CASE("the incomplete beta function agrees with another program", "[report]") {
  // Expected: mpmath 1.3, betainc(regularized=True) with 30 digits.
  CHECK(incomplete_beta(0.3, 2, 5) == Approx(0.579825).epsilon(1e-13));
  CHECK(incomplete_beta(0.9, 1.25, 0.5) == Approx(0.64127717552729496).epsilon(1e-13));
  CHECK(incomplete_beta(1e-6, 4, 0.5) == Approx(2.7343760937506836e-25).epsilon(1e-12));
  CHECK(incomplete_beta(0.5, 100, 0.5) == Approx(6.2556629943074125e-32).epsilon(1e-12));
  CHECK(incomplete_beta(0.999, 100, 0.5) == Approx(0.65504351632442973).epsilon(1e-12));
  CHECK(incomplete_beta(0, 2, 3) == 0);
  CHECK(incomplete_beta(1, 2, 3) == 1);
}
