// SPDX-License-Identifier: Apache-2.0
// Seeded values for tests: Gaussian, or small whole numbers.

#pragma once

#include <cmath>
#include <numbers>
#include <vector>

#include "core/random.hpp"

namespace eqt::test {

/// `count` independent N(0, 1) draws (Box-Muller), the same for the same key.
inline std::vector<float> gaussian(std::size_t count, const RandomKey& key) {
  const RandomStream stream(key);
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i) {
    const auto n = static_cast<std::uint32_t>(2 * i);
    const double u = (static_cast<double>(stream.bits(n)) + 1) * 0x1p-32;
    const double angle = 2 * std::numbers::pi * static_cast<double>(stream.uniform(n + 1));
    values[i] = static_cast<float>(std::sqrt(-2 * std::log(u)) * std::cos(angle));
  }
  return values;
}

/// `count` whole numbers of [lowest, lowest + different), the same for the same key: sums of a few
/// of them are exact, and many are equal.
inline std::vector<float> whole_numbers(std::size_t count, const RandomKey& key, int lowest,
                                        int different) {
  const RandomStream stream(key);
  const auto range = static_cast<float>(different);
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i)
    values[i] = std::floor(range * stream.uniform(static_cast<std::uint32_t>(i))) +
                static_cast<float>(lowest);
  return values;
}

}  // namespace eqt::test
