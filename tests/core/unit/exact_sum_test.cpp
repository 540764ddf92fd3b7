// SPDX-License-Identifier: Apache-2.0
#include "core/exact_sum.hpp"

#include <algorithm>
#include <vector>

#include "core/random.hpp"
#include "support/catch.hpp"

using eqt::ExactSum;

namespace {

double sum_of(const std::vector<double>& values) {
  ExactSum sum;
  for (const double value : values) sum.add(value);
  return sum.value();
}

}  // namespace

TEST_CASE("an exact sum is the same in any order and grouping", "[exact_sum]") {
  const eqt::RandomStream random({7, 0, 0, 0});
  std::vector<double> values(3000);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto n = static_cast<std::uint32_t>(2 * i);
    values[i] =
        std::ldexp(1.0 + random.uniform(n), static_cast<int>(random.bits(n + 1) % 1200) - 600);
  }
  const double expected = sum_of(values);
  std::reverse(values.begin(), values.end());
  CHECK(sum_of(values) == expected);
  std::sort(values.begin(), values.end());
  CHECK(sum_of(values) == expected);
}

TEST_CASE("sums that fit into doubles are exact", "[exact_sum]") {
  CHECK(sum_of({}) == 0);
  CHECK(sum_of({0.0, 0x1p-1074}) == 0x1p-1074);
  CHECK(sum_of({0x1p-1022, 0x1p-1022}) == 0x1p-1021);
  CHECK(sum_of({1e300, 1.0}) == 1e300);
  CHECK(sum_of({0x1p53, 1.0, 1.0}) == 0x1p53 + 2);
  CHECK(sum_of(std::vector<double>(1 << 20, 0.1)) == Approx((1 << 20) * 0.1).epsilon(1e-15));
  CHECK(sum_of({0x1.fffffffffffffp+0, 0x1p-52}) == 2.0);
}
