// SPDX-License-Identifier: Apache-2.0
// What steps tell of links: by a step whose exchange takes 1 s and hides behind 2 s of computing.

#include <algorithm>

#include "adaptation/grade_observations.hpp"
#include "support/catch.hpp"

using eqt::adaptation::link_slowdown;

namespace {

double step(double slowdown) { return std::max(2.0, 1 + slowdown); }

}  // namespace

TEST_CASE("a step that is much longer shows how much slower the link is", "[grades]") {
  CHECK(link_slowdown(step, step(20), 1) == Approx(20).epsilon(0.08));
  CHECK(link_slowdown(step, step(3), 20) == Approx(3).epsilon(0.15));
}

TEST_CASE("a hidden exchange shows only that the link is not slower", "[grades]") {
  CHECK(link_slowdown(step, 2, 1) == Approx(1).epsilon(0.01));
  // As fast as if it were not slower: from 20 to about 1.06, with which the step is 3 % longer.
  CHECK(link_slowdown(step, 2, 20) < 1.2);
}

TEST_CASE("small differences are averaged", "[grades]") {
  const double found = link_slowdown(step, step(12), 10);
  CHECK(found > 10);
  CHECK(found < 11);
}

TEST_CASE("a link is never faster than it was alone, nor slower than a limit", "[grades]") {
  CHECK(link_slowdown(step, 0.1, 1) == 1);
  CHECK(link_slowdown(step, 1e9, 1) == Approx(4096));
  CHECK(link_slowdown(step, 0, 7) == 7);  // nothing was measured
}

TEST_CASE("a step that sends nothing tells nothing of links", "[grades]") {
  const auto alone = [](double) { return 2.0; };
  for (const double measured : {0.1, 2.0, 50.0}) CHECK(link_slowdown(alone, measured, 3) == 3);
}
