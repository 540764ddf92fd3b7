// SPDX-License-Identifier: Apache-2.0
#include "model/task.hpp"

#include <cmath>

#include "support/catch.hpp"

using namespace eqt;
using namespace eqt::model;

TEST_CASE("shares have the mean and the variance of Beta(alpha, alpha)", "[mixup]") {
  const double alpha = GENERATE(0.2, 1.0, 4.0);
  constexpr int kDraws = 20000;
  double sum = 0, squares = 0;
  for (int step = 0; step < kDraws; ++step) {
    const double share =
        draw_mixup_share(alpha, make_key(7, static_cast<StepId>(step), 0, RandomPurpose::dropout));
    REQUIRE(share >= 0);
    REQUIRE(share <= 1);
    sum += share;
    squares += (share - 0.5) * (share - 0.5);
  }
  // Variance 1 / (4 (2 alpha + 1)); five standard errors of each, of at most 0.25 and 0.0625.
  const double variance = 1 / (4 * (2 * alpha + 1));
  CHECK(std::abs(sum / kDraws - 0.5) < 5 * std::sqrt(variance / kDraws));
  CHECK(std::abs(squares / kDraws - variance) < 5 * 0.125 / std::sqrt(kDraws));
}

TEST_CASE("a share depends on seed, batch and rank", "[mixup]") {
  const auto draw = [](std::uint64_t seed, StepId step, std::uint32_t rank) {
    return draw_mixup_share(1, make_key(seed, step, rank, RandomPurpose::dropout));
  };
  CHECK(draw(1, 2, 3) == draw(1, 2, 3));
  CHECK(draw(1, 2, 3) != draw(2, 2, 3));
  CHECK(draw(1, 2, 3) != draw(1, 3, 3));
  CHECK(draw(1, 2, 3) != draw(1, 2, 4));
}
