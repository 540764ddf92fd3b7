// SPDX-License-Identifier: Apache-2.0
// The distributions of test statistics: Student's, Dunnett's and chi-square, as pure arithmetic.

#pragma once

#include <span>

namespace eqt::report {

/// Returns I_x(a, b), the regularised incomplete beta function, within 1e-12: the continued
/// fraction of M. Abramowitz, I. A. Stegun, "Handbook of Mathematical Functions", 26.5.8, by
/// Lentz's method (Applied Optics 15, 1976).
/// @pre 0 <= x <= 1, a > 0, b > 0
double incomplete_beta(double x, double a, double b);

/// Returns P(|T| >= |t|) of Student's distribution: I_x(degrees / 2, 1 / 2) at x = degrees /
/// (degrees + t^2) (Abramowitz and Stegun, 26.7.1 and 26.5.2).
/// @pre degrees > 0
double student_two_sided(double t, double degrees);

/// Returns P(T >= t) of the same distribution.
/// @pre degrees > 0
double student_upper(double t, double degrees);

/// Returns the t >= 0 with student_two_sided(t, degrees) = p, within 1e-12 of its value: mean
/// difference ± t(1 - level) * error is the confidence interval of the level.
/// @pre 0 < p < 1, degrees > 0
double student_quantile(double p, double degrees);

/// Returns P(max_i |T_i| >= |t|), within 1e-9 of its value, for T_i = (a_i Z_0 + sqrt(1 - a_i^2)
/// Z_i) / S with independent standard normal Z_0, Z_1, ... and S^2 chi-square / degrees: several
/// means compared with one control, whose chance is in all of them. `weights` are the a_i =
/// sqrt(n_i / (n_0 + n_i)) of n_i values and n_0 of the control; with a single one it is Student's
/// distribution.
/// Source: C. W. Dunnett, "A multiple comparison procedure for comparing several treatments with a
/// control", Journal of the American Statistical Association 50 (1955), section 3.
/// @pre degrees >= 1, at least one weight, each in (0, 1)
double dunnett_two_sided(double t, double degrees, std::span<const double> weights);

/// Returns the t >= 0 with dunnett_two_sided(t, degrees, weights) = p, within 1e-8 of its value.
/// @pre 0 < p < 1, and as above
double dunnett_quantile(double p, double degrees, std::span<const double> weights);

/// Returns P(X >= x) of the chi-square distribution, within 1e-12: the series and the continued
/// fraction of the incomplete gamma function (Abramowitz and Stegun, 6.5.29 and 6.5.31).
/// @pre degrees > 0, x may be infinite
double chi_square_upper(double x, double degrees);

}  // namespace eqt::report
