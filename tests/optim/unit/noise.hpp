// SPDX-License-Identifier: Apache-2.0
// Values for tests of optimizers.

#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/random.hpp"

namespace eqt::test {

/// Uniform values from -1/2 to 1/2, a pure function of the seed.
inline std::vector<float> noise(std::size_t count, std::uint64_t seed) {
  const RandomStream stream({seed, 0, 0, 0});
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i)
    values[i] = stream.uniform(static_cast<std::uint32_t>(i)) - 0.5f;
  return values;
}

}  // namespace eqt::test
