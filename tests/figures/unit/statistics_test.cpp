// SPDX-License-Identifier: Apache-2.0
#include "figures/statistics.hpp"

#include <cmath>
#include <limits>
#include <vector>

#include "support/catch.hpp"

using namespace eqt::figures;

TEST_CASE("mean and sample deviation equal those computed by hand", "[figures]") {
  // Sum 40, mean 5; squares around it 9+1+1+1+0+0+4+16 = 32; sqrt(32 / 7).
  const std::vector<Figure> eight = {2, 4, 4, 4, 5, 5, 7, 9};
  const Spread spread = spread_of(eight);
  CHECK(spread.mean == Approx(5.0).epsilon(1e-15));
  REQUIRE(spread.deviation);
  CHECK(*spread.deviation == Approx(2.138089935299395).epsilon(1e-14));
  CHECK(spread.known == 8);

  // Two values: half their distance times sqrt(2).
  CHECK(*spread_of(std::vector<Figure>{1, 2}).deviation == Approx(std::sqrt(0.5)).epsilon(1e-15));
}

TEST_CASE("one figure has no deviation, none has no mean", "[figures]") {
  const Spread one = spread_of(std::vector<Figure>{3});
  CHECK(one.mean == 3);
  CHECK_FALSE(one.deviation);
  CHECK(spread_of({}).known == 0);
}

TEST_CASE("figures that are missing or not finite are left out and counted", "[figures]") {
  const std::vector<Figure> figures = {
      1, {}, std::numeric_limits<double>::quiet_NaN(), 3, std::numeric_limits<double>::infinity()};
  const Spread spread = spread_of(figures);
  CHECK(spread.known == 2);
  CHECK(spread.asked == 5);
  CHECK(spread.mean == 2);
  CHECK(*spread.deviation == Approx(std::sqrt(2.0)));
}

TEST_CASE("a deviation far from zero does not cancel", "[figures]") {
  const std::vector<Figure> figures = {1e9 + 4, 1e9 + 7, 1e9 + 13, 1e9 + 16};  // variance 30
  CHECK(*spread_of(figures).deviation == Approx(std::sqrt(30.0)).epsilon(1e-9));
}

TEST_CASE("the standard error is the deviation over the root of the runs", "[figures]") {
  CHECK(*Spread{4, 4, 0, 3.0}.standard_error() == 1.5);
  CHECK_FALSE(Spread{1, 1, 0, {}}.standard_error());
}

TEST_CASE("figures that differ by nothing but rounding have no deviation", "[statistics]") {
  for (const double value : {0.9, 0.95, 0.7231, 1e-9}) {
    const std::vector<Figure> equal(7, value);
    CHECK(spread_of(equal).deviation == 0);
  }
  // Differences of 0.05, from numbers whose last bits are at 1e-16.
  const std::vector<Figure> differences = {0.95 - 0.90, 0.85 - 0.80, 0.15 - 0.10};
  REQUIRE(differences[0] != differences[2]);
  CHECK(spread_of(differences, 0.95).deviation == 0);
  CHECK(*spread_of(std::vector<Figure>{1e-9, 2e-9}).deviation > 0);
}
