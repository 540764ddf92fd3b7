// SPDX-License-Identifier: Apache-2.0
#include "model/whitening.hpp"

#include <cmath>
#include <string>
#include <vector>

#include "core/random.hpp"
#include "support/catch.hpp"
#include "support/refusal.hpp"

namespace eqt::model {
namespace {

/// Pictures whose neighbouring pixels are alike, and whose channels are.
std::vector<float> smooth_pictures(std::size_t count, const data::ImageShape& shape) {
  const RandomStream stream({7, 0, 0, 0});
  std::vector<float> pictures(count * shape.values());
  std::uint32_t drawn = 0;
  float last = 0;
  for (float& value : pictures) {
    last = 0.8f * last + stream.uniform(drawn++) - 0.5f;
    value = last;
  }
  return pictures;
}

/// The mean product of two filters' outputs over all patches.
double correlation(const std::vector<float>& pictures, const data::ImageShape& shape,
                   const std::vector<float>& filters, std::size_t a, std::size_t b) {
  const auto h = static_cast<std::size_t>(shape.height), w = static_cast<std::size_t>(shape.width);
  const auto c = static_cast<std::size_t>(shape.channels);
  const std::size_t size = 4 * c;
  double sum = 0;
  std::size_t patches = 0;
  for (std::size_t n = 0; n < pictures.size() / shape.values(); ++n)
    for (std::size_t y = 0; y + 1 < h; ++y)
      for (std::size_t x = 0; x + 1 < w; ++x) {
        double first = 0, second = 0;
        for (std::size_t i = 0; i < size; ++i) {
          const std::size_t row = y + i / (2 * c), column = x + i / c % 2;
          const double pixel = pictures[((n * h + row) * w + column) * c + i % c];
          first += pixel * static_cast<double>(filters[a * size + i]);
          second += pixel * static_cast<double>(filters[b * size + i]);
        }
        sum += first * second;
        ++patches;
      }
  return sum / static_cast<double>(patches);
}

TEST_CASE("whitened patches have no correlation, and a second moment of about 1", "[whitening]") {
  const data::ImageShape shape = GENERATE(data::ImageShape{3, 8, 9}, data::ImageShape{1, 6, 5});
  const std::vector<float> pictures = smooth_pictures(50, shape);
  const std::vector<float> filters = whitening_filters(pictures, shape, kWhitenedSide);
  const auto components = static_cast<std::size_t>(4 * shape.channels);
  REQUIRE(filters.size() == 2 * components * components);
  for (std::size_t a = 0; a < components; ++a) {
    for (std::size_t b = 0; b < components; ++b) {
      const double moment = correlation(pictures, shape, filters, a, b);
      if (a == b) {
        CHECK(moment > 0.9);  // 1 without the epsilon
        CHECK(moment < 1.0001);
      } else {
        CHECK(std::fabs(moment) < 1e-4);
      }
    }
  }
  // The second half has the other sign.
  for (std::size_t i = 0; i < components * components; ++i)
    REQUIRE(filters[components * components + i] == -filters[i]);
}

TEST_CASE("pictures of one colour leave filters that are finite", "[whitening]") {
  const data::ImageShape shape{3, 4, 4};
  const std::vector<float> pictures(5 * shape.values(), 0.25f);
  for (const float value : whitening_filters(pictures, shape, kWhitenedSide)) {
    REQUIRE(std::isfinite(value));
    REQUIRE(std::fabs(value) <= 1 / std::sqrt(5e-4f) + 1e-3f);
  }
}

TEST_CASE("blank pictures cannot be whitened", "[whitening]") {
  const data::ImageShape shape{1, 4, 4};
  const std::vector<float> pictures(shape.values(), 0.0f);
  const std::string message =
      test::refusal(Kind::data, [&] { whitening_filters(pictures, shape, kWhitenedSide); });
  CHECK(test::says(message, "expected training pictures with other pixels than their mean"));
}

}  // namespace
}  // namespace eqt::model
