// A mean with as many digits as its deviation supports.

#pragma once

#include <string>

namespace eqt::report {

/// "84.8 ± 0.4": the deviation with two digits where its first three lie between 100 and 354, with
/// one up to 949, and beyond that rounded up to 1000 with two; the mean to the same decimal place,
/// but with no more than six digits. Very large and very small ones share an exponent:
/// "(1.23 ± 0.12)e-09".
/// Source: Particle Data Group, Review of Particle Physics (2022), introduction, 5.3 "Rounding".
/// @pre deviation > 0, both finite
std::string measured_text(double mean, double deviation);

/// The deviation's digits of the same rule, alone.
/// @pre deviation > 0, finite
std::string deviation_text(double deviation);

}  // namespace eqt::report
