// SPDX-License-Identifier: Apache-2.0
// A mean with as many digits as its deviation supports.

#pragma once

#include <string>

namespace eqt::report {

/// "84.8 ± 0.4": the deviation has two digits if its first three are between 100 and 354, one up
/// to 949, and above that it is rounded up to 1000 and has two. The mean has the same decimal
/// place, but at most six digits. Very large and very small values share an exponent:
/// "(1.23 ± 0.12)e-09".
/// Source: Particle Data Group, Review of Particle Physics (2022), introduction, 5.3 "Rounding".
/// @pre deviation > 0, both finite
std::string measured_text(double mean, double deviation);

/// The digits of the deviation by the same rule, without the mean.
/// @pre deviation > 0, finite
std::string deviation_text(double deviation);

}  // namespace eqt::report
