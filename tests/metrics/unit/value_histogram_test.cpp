// SPDX-License-Identifier: Apache-2.0
#include "metrics/value_histogram.hpp"

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "support/catch.hpp"

using namespace eqt::metrics;

namespace {

HistogramRecord histogram_of(const std::vector<float>& values) {
  ValueHistogram histogram;
  histogram.add(values);
  return histogram.record("h", 5);
}

}  // namespace

TEST_CASE("bins are half octaves", "[metrics]") {
  const auto h = histogram_of({1.0f, 1.25f, 1.5f, 2.0f, 2.99f});
  CHECK(h.upper_limits == std::vector<double>{1.5, 2, 3});
  CHECK(h.counts == std::vector<double>{2, 1, 2});
  CHECK(h.least == 1);
  CHECK(h.most == static_cast<double>(2.99f));
  CHECK((h.name == "h" && h.step == 5));
}

TEST_CASE("both signs and the middle, empty runs as one bin", "[metrics]") {
  const auto h = histogram_of({-4.0f, 0.0f, -0.0f, 1e-20f, 0.75f});
  CHECK(h.upper_limits == std::vector<double>{-4, -std::exp2(-40), std::exp2(-40), 0.75, 1});
  CHECK(h.counts == std::vector<double>{1, 0, 3, 0, 1});
  CHECK(h.sum == Approx(-3.25));
  CHECK(h.sum_squares == Approx(16.5625));
}

TEST_CASE("values that are not finite are not counted, the largest are", "[metrics]") {
  constexpr float kMost = std::numeric_limits<float>::max();
  ValueHistogram histogram;
  histogram.add(std::vector{std::numeric_limits<float>::infinity(), std::nanf("")});
  CHECK(histogram.empty());
  histogram.add(std::vector{kMost, -kMost});
  const auto h = histogram.record("h", 0);
  double count = 0;
  for (const double c : h.counts) count += c;
  CHECK(count == 2);
  for (const double limit : h.upper_limits) CHECK(std::isfinite(limit));
  CHECK(h.upper_limits.back() == h.most);
}

TEST_CASE("every value is between the limits of its bin", "[metrics]") {
  std::mt19937 engine(3);
  std::normal_distribution<float> normal(0, 1e-3f);
  std::vector<float> values(10007);
  for (float& v : values) v = normal(engine);
  const auto h = histogram_of(values);
  REQUIRE(h.upper_limits.size() == h.counts.size());
  for (std::size_t i = 0; i < h.counts.size(); ++i) {
    // The first bin contains the smallest value.
    const double low = i == 0 ? 2 * h.least : h.upper_limits[i - 1], high = h.upper_limits[i];
    CHECK(low < high);
    double inside = 0;
    // Bins are closed on the side of zero.
    for (const float v : values) {
      const auto x = static_cast<double>(v);
      inside += low >= 0    ? x >= low && x < high
                : high <= 0 ? x > low && x <= high
                            : x > low && x < high;
    }
    CHECK(inside == h.counts[i]);
  }
}

TEST_CASE("histograms of parts add up to that of the whole", "[metrics]") {
  const std::vector<float> first = {-1, 0, 3}, second = {-7, 0.5f, 0.25f};
  ValueHistogram sum, part;
  sum.add(part);
  CHECK(sum.empty());
  for (const auto& values : {first, second}) {
    part.clear();
    part.add(values);
    sum.add(part);
  }
  const auto found = sum.record("h", 5), whole = histogram_of({-1, 0, 3, -7, 0.5f, 0.25f});
  CHECK(found.upper_limits == whole.upper_limits);
  CHECK(found.counts == whole.counts);
  CHECK((found.least == -7 && found.most == 3 && found.sum == whole.sum));
  CHECK(found.sum_squares == whole.sum_squares);
}
