// SPDX-License-Identifier: Apache-2.0
// Maxima of windows of 2 x 2 pixels against plain loops, on every instruction set.

#include "model/pool_kernels.hpp"

#include <array>
#include <limits>
#include <vector>

#include "support/catch.hpp"
#include "support/gaussian.hpp"
#include "support/simd_targets.hpp"

namespace eqt::model {
namespace {

/// Values of which many are equal.
std::vector<float> coarse_values(std::size_t count, std::uint32_t slice) {
  return test::whole_numbers(count, {.run_seed = 3, .slice = slice}, -3, 6);
}

TEST_CASE("maxima and their gradients are those of plain loops", "[pool]") {
  const std::size_t channels = GENERATE(as<std::size_t>(), 1, 3, 16, 37);
  const std::size_t width = GENERATE(as<std::size_t>(), 2, 7, 12);
  const std::vector<float> upper = coarse_values(width * channels, 1),
                           lower = coarse_values(width * channels, 2);
  const std::size_t count = width / 2 * channels;
  std::vector<float> g(count);
  for (std::size_t i = 0; i < count; ++i) g[i] = static_cast<float>(i + 1);
  test::for_each_simd_target([&] {
    std::vector<float> out(count), up(upper.size(), -1.0f), down(lower.size(), -1.0f);
    std::vector<std::uint8_t> which(count);
    max_pool_rows(upper, lower, channels, out, which);
    max_pool_gradient(g, which, channels, up, down);
    std::vector<float> expected_up(upper.size()), expected_down(lower.size());
    for (std::size_t pixel = 0; pixel < width / 2; ++pixel) {
      for (std::size_t c = 0; c < channels; ++c) {
        const std::size_t left = 2 * pixel * channels + c, right = left + channels;
        const std::array<float, 4> window = {upper[left], upper[right], lower[left], lower[right]};
        std::size_t best = 0;
        for (std::size_t k = 1; k < window.size(); ++k)
          if (window[k] > window[best]) best = k;
        const std::size_t i = pixel * channels + c;
        REQUIRE(out[i] == window[best]);
        REQUIRE(which[i] == best);
        (best < 2 ? expected_up : expected_down)[best % 2 == 0 ? left : right] = g[i];
      }
    }
    CHECK(up == expected_up);
    CHECK(down == expected_down);
  });
}

TEST_CASE("a window with what is not a number has it as its maximum", "[pool]") {
  const float nan =
      GENERATE(std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::quiet_NaN());
  constexpr std::size_t kWidth = 17;
  test::for_each_simd_target([&] {
    for (std::size_t place = 0; place < 4; ++place) {
      std::vector<float> upper(2 * kWidth, 5.0f), lower(2 * kWidth, 5.0f), out(kWidth);
      std::vector<std::uint8_t> which(kWidth);
      (place < 2 ? upper : lower)[place % 2 * kWidth + 16] = nan;
      (place < 2 ? upper : lower)[place % 2 * kWidth] = nan;
      max_pool_rows(upper, lower, kWidth, out, which);
      for (const std::size_t c : {std::size_t{0}, std::size_t{16}}) {
        CHECK(std::isnan(out[c]));
        CHECK(which[c] == place);
      }
      CHECK(out[1] == 5.0f);
    }
  });
}

}  // namespace
}  // namespace eqt::model
