// SPDX-License-Identifier: Apache-2.0
#include "core/gamma.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace eqt {

double RandomSequence::uniform() noexcept {
  const std::uint64_t high = stream_.bits(next_);
  const std::uint64_t low = stream_.bits(next_ + 1);
  next_ += 2;
  return (static_cast<double>((high << 32 | low) >> 12) + 0.5) * 0x1p-52;
}

double RandomSequence::normal() noexcept {
  const double radius = std::sqrt(-2 * std::log(uniform()));
  return radius * std::cos(2 * std::numbers::pi * uniform());
}

double log_gamma_draw(double shape, RandomSequence& draws) noexcept {
  if (shape < 1) {
    constexpr double kSmallest = 1e-300;  // 1 / shape must be finite
    const double boost = std::log(draws.uniform()) / std::max(shape, kSmallest);
    return log_gamma_draw(shape + 1, draws) + boost;
  }
  const double d = shape - 1.0 / 3;
  const double c = 1 / std::sqrt(9 * d);
  while (true) {
    const double x = draws.normal();
    const double root = 1 + c * x;
    if (root <= 0) continue;
    const double v = root * root * root;
    if (std::log(draws.uniform()) < 0.5 * x * x + d - d * v + d * std::log(v)) {
      return std::log(d * v);
    }
  }
}

}  // namespace eqt
