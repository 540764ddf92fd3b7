// SPDX-License-Identifier: Apache-2.0
// |v|^2 of float values, added up in double.

#pragma once

#include <span>

namespace eqt {

inline double square_norm(std::span<const float> values) {
  double sum = 0;
  for (const float value : values) sum += static_cast<double>(value) * value;
  return sum;
}

}  // namespace eqt
