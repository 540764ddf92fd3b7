// SPDX-License-Identifier: Apache-2.0
#include "core/random.hpp"

#include <algorithm>
#include <cmath>
#include <set>

#include "support/catch.hpp"

using namespace eqt;

TEST_CASE("random words are a pure function of their key", "[random]") {
  const RandomStream a({1, 2, 3, 4});
  const RandomStream b({1, 2, 3, 4});
  for (std::uint32_t i = 0; i < 100; ++i) REQUIRE(a.bits(i) == b.bits(i));
}

TEST_CASE("every field of the key changes the stream", "[random]") {
  const RandomStream base({1, 2, 3, 4});
  for (const RandomKey& other : {RandomKey{9, 2, 3, 4}, RandomKey{1, 9, 3, 4},
                                 RandomKey{1, 2, 9, 4}, RandomKey{1, 2, 3, 9}}) {
    const RandomStream stream(other);
    int equal = 0;
    for (std::uint32_t i = 0; i < 1000; ++i) equal += stream.bits(i) == base.bits(i);
    REQUIRE(equal < 3);
  }
}

TEST_CASE("uniform draws have the moments of the uniform distribution", "[random]") {
  for (std::uint32_t rank = 0; rank < 4; ++rank) {
    const RandomStream stream({7, 11, rank, 0});
    const int n = 1 << 20;
    double sum = 0, sum_squares = 0, lagged = 0, previous = 0;
    for (int i = 0; i < n; ++i) {
      const double u = stream.uniform(static_cast<std::uint32_t>(i));
      REQUIRE(u >= 0);
      REQUIRE(u < 1);
      sum += u;
      sum_squares += u * u;
      lagged += (u - 0.5) * (previous - 0.5);
      previous = u;
    }
    // Standard errors of the mean, second moment and lag-1 product, five of them.
    REQUIRE(std::abs(sum / n - 0.5) < 5 * std::sqrt(1.0 / 12 / n));
    REQUIRE(std::abs(sum_squares / n - 1.0 / 3) < 5 * std::sqrt(4.0 / 45 / n));
    REQUIRE(std::abs(lagged / n) < 5 * (1.0 / 12) / std::sqrt(n));
  }
}

TEST_CASE("ranks draw independently", "[random]") {
  const RandomStream a({7, 11, 0, 0}), b({7, 11, 1, 0});
  const int n = 1 << 20;
  double product = 0;
  for (std::uint32_t i = 0; i < n; ++i) product += (a.uniform(i) - 0.5) * (b.uniform(i) - 0.5);
  REQUIRE(std::abs(product / n) < 5 * (1.0 / 12) / std::sqrt(n));
}

TEST_CASE("a random permutation holds every index once", "[random]") {
  for (std::size_t n : {0u, 1u, 2u, 3u, 17u, 1000u}) {
    auto order = random_permutation({3, 0, 0, 0}, n);
    const std::set<std::size_t> distinct(order.begin(), order.end());
    REQUIRE(distinct.size() == n);
    if (n > 0) REQUIRE(*distinct.rbegin() == n - 1);
    if (n > 100) REQUIRE_FALSE(std::is_sorted(order.begin(), order.end()));
  }
}
