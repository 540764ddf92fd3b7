// SPDX-License-Identifier: Apache-2.0
// Numbers of files as float32.

#pragma once

#include <cmath>
#include <cstdint>
#include <limits>

namespace eqt {

/// The value of an IEEE 754 binary16, by its bits.
inline float half_to_float(std::uint16_t bits) {
  const unsigned exponent = bits >> 10 & 31u, fraction = bits & 1023u;
  float magnitude = 0;
  if (exponent == 31)
    magnitude = fraction == 0 ? std::numeric_limits<float>::infinity()
                              : std::numeric_limits<float>::quiet_NaN();
  else if (exponent == 0)
    magnitude = std::ldexp(static_cast<float>(fraction), -24);
  else
    magnitude = std::ldexp(static_cast<float>(fraction + 1024), static_cast<int>(exponent) - 25);
  return bits >> 15 != 0 ? -magnitude : magnitude;
}

/// The nearest float32; infinity beyond the largest one, where a plain conversion is undefined.
inline float double_to_float(double value) {
  if (std::abs(value) <= static_cast<double>(std::numeric_limits<float>::max()))
    return static_cast<float>(value);
  return std::copysign(std::isnan(value) ? std::numeric_limits<float>::quiet_NaN()
                                         : std::numeric_limits<float>::infinity(),
                       static_cast<float>(std::signbit(value) ? -1 : 1));
}

}  // namespace eqt
