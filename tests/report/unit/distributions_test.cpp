// SPDX-License-Identifier: Apache-2.0
#include "report/distributions.hpp"

#include <cmath>
#include <limits>
#include <vector>

#include "support/catch.hpp"

using namespace eqt::report;

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

TEST_CASE("one side of Student's distribution is half of both", "[report]") {
  CHECK(student_upper(2, 7) == Approx(0.5 * student_two_sided(2, 7)).epsilon(1e-15));
  CHECK(student_upper(-2, 7) == Approx(1 - student_upper(2, 7)).epsilon(1e-15));
  CHECK(student_upper(0, 3) == Approx(0.5).epsilon(1e-14));
}

TEST_CASE("Dunnett's distribution has the quantiles of its tables", "[report]") {
  // C. W. Dunnett, "New tables for multiple comparisons with a control", Biometrics 20 (1964),
  // table II: two-sided 0.05, as many runs of each group as of the control, two digits after the
  // point.
  struct Row {
    double degrees;
    std::size_t comparisons;
    double t;
  };
  for (const Row& row : {Row{5, 1, 2.57}, Row{5, 2, 3.03}, Row{5, 9, 3.97}, Row{10, 4, 2.89},
                         Row{20, 3, 2.54}, Row{20, 9, 2.95}}) {
    const std::vector<double> weights(row.comparisons, std::sqrt(0.5));
    CHECK(dunnett_quantile(0.05, row.degrees, weights) == Approx(row.t).margin(0.005));
  }
}

TEST_CASE("Dunnett's distribution agrees with an integral by another program", "[report]") {
  // Expected: SciPy 1.17.1, integrate.quad over both variables. Four and five values, six of the
  // control: the example of Dunnett (1955).
  const std::vector<double> weights = {std::sqrt(4.0 / 10), std::sqrt(5.0 / 11)};
  CHECK(dunnett_two_sided(0.8570321259343803, 12, weights) ==
        Approx(0.6201019800184557).epsilon(1e-9));
  CHECK(dunnett_two_sided(-3.693752311235726, 12, weights) ==
        Approx(0.0058253608479468255).epsilon(1e-7));
  const std::vector<double> five(5, std::sqrt(0.5));
  CHECK(dunnett_two_sided(12, 8, five) == Approx(8.730428474268415e-06).epsilon(1e-5));
  // One comparison is Student's.
  for (const double degrees : {1.0, 2.5, 40.0})
    for (const double t : {0.3, 2.5, 20.0}) {
      const std::vector<double> one = {0.9};
      CHECK(dunnett_two_sided(t, degrees, one) ==
            Approx(student_two_sided(t, degrees)).epsilon(1e-9));
    }
  CHECK(dunnett_two_sided(0, 3, five) == Approx(1).epsilon(1e-12));
}

TEST_CASE("Dunnett's quantiles invert the probability, also of very unequal groups", "[report]") {
  for (const std::vector<double>& weights :
       {std::vector<double>{0.1}, std::vector<double>{0.1, 0.995, 0.7},
        std::vector<double>(16, std::sqrt(0.5))})
    for (const double p : {1e-6, 0.05, 0.9})
      for (const double degrees : {1.0, 8.0, 300.0}) {
        CAPTURE(weights, p, degrees);
        const double t = dunnett_quantile(p, degrees, weights);
        CHECK(dunnett_two_sided(t, degrees, weights) == Approx(p).epsilon(1e-7));
      }
}

TEST_CASE("chi-square agrees with another program", "[report]") {
  // Expected: SciPy 1.17.1, stats.chi2.sf.
  CHECK(chi_square_upper(3.7, 4) == Approx(0.44812592399383866).epsilon(1e-13));
  CHECK(chi_square_upper(0.3, 1) == Approx(0.583882420770365).epsilon(1e-13));
  CHECK(chi_square_upper(60, 7) == Approx(1.5095553022989154e-10).epsilon(1e-12));
  CHECK(chi_square_upper(0, 3) == 1);
  CHECK(chi_square_upper(std::numeric_limits<double>::infinity(), 3) == 0);
}
