// SPDX-License-Identifier: Apache-2.0
// Noise of compression beside that of the batch.

#include "planner/planned_run.hpp"

#include "support/catch.hpp"

namespace eqt::planner {

TEST_CASE("noise of one quantisation and of two", "[planner]") {
  // X = B: V = |G|^2 = 1; four ranks have |g|^2 = 5 each. Half of it, over 4 ranks: 0.625.
  CHECK(compression_noise(0.5, 1, 4, 64, 64) == Approx(0.625));
  // The mean, 1 + 1 + 0.625, is encoded again.
  CHECK(compression_noise(0.5, 2, 4, 64, 64) == Approx(0.625 + 0.5 * 2.625));
  CHECK(compression_noise(0, 2, 4, 64, 64) == 0);
  // Where noise dominates, |g|^2 is n V: e, and e (1 + e) more.
  CHECK(compression_noise(0.1, 2, 8, 1, 1e9) == Approx(0.1 + 0.1 * 1.1));
}

TEST_CASE("steps to a target", "[planner]") {
  CHECK(steps_to_target(100, 0, 64, 64) == Approx(200));
  CHECK(steps_to_target(100, 0.5, 64, 128) == Approx(400));
}

}  // namespace eqt::planner
