// SPDX-License-Identifier: Apache-2.0
// Comparison of float32 values with those of a computation by hand.

#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "support/catch.hpp"

namespace eqt::test {

inline void check_close(std::span<const float> found, const std::vector<double>& expected) {
  REQUIRE(found.size() == expected.size());
  for (std::size_t i = 0; i < found.size(); ++i)
    CHECK(static_cast<double>(found[i]) == Approx(expected[i]).margin(1e-6));
}

}  // namespace eqt::test
