// SPDX-License-Identifier: Apache-2.0
// Depthwise convolutions and their gradients against plain loops, on every instruction set.

#include "model/depthwise_kernels.hpp"

#include <vector>

#include "support/catch.hpp"
#include "support/gaussian.hpp"
#include "support/simd_targets.hpp"

namespace eqt::model {
namespace {

/// Values whose sums are exact.
std::vector<float> exact_values(std::size_t count, std::uint32_t slice) {
  return test::whole_numbers(count, {.run_seed = 4, .slice = slice}, -4, 9);
}

/// Calls body(place in the input, in the filters, in the output) for each product.
template <class Body>
void for_each_product(const DepthwiseShape& shape, const Body& body) {
  const auto signed_of = [](std::size_t n) { return static_cast<std::ptrdiff_t>(n); };
  for (std::size_t oy = 0; oy < shape.out_height(); ++oy)
    for (std::size_t ox = 0; ox < shape.out_width(); ++ox)
      for (std::size_t ky = 0; ky < shape.kernel; ++ky)
        for (std::size_t kx = 0; kx < shape.kernel; ++kx) {
          const auto iy = signed_of(oy * shape.stride + ky) - signed_of(shape.padding);
          const auto ix = signed_of(ox * shape.stride + kx) - signed_of(shape.padding);
          if (iy < 0 || ix < 0 || iy >= signed_of(shape.height) || ix >= signed_of(shape.width))
            continue;
          for (std::size_t c = 0; c < shape.channels; ++c)
            body((static_cast<std::size_t>(iy) * shape.width + static_cast<std::size_t>(ix)) *
                         shape.channels +
                     c,
                 (ky * shape.kernel + kx) * shape.channels + c,
                 (oy * shape.out_width() + ox) * shape.channels + c);
        }
}

TEST_CASE("depthwise convolutions and their gradients are those of plain loops", "[depthwise]") {
  const std::size_t channels = GENERATE(as<std::size_t>(), 1, 8, 43);
  const std::size_t kernel = GENERATE(as<std::size_t>(), 1, 3, 5, 7);
  const std::size_t stride = GENERATE(as<std::size_t>(), 1, 2);
  const auto [height, width] = GENERATE(table<std::size_t, std::size_t>({{1, 1}, {2, 5}, {9, 6}}));
  const DepthwiseShape shape{.height = height,
                             .width = width,
                             .channels = channels,
                             .kernel = kernel,
                             .stride = stride,
                             .padding = (kernel - 1) / 2};
  CAPTURE(channels, kernel, stride, height, width);
  REQUIRE(shape.out_height() == (height + stride - 1) / stride);
  const auto x = exact_values(shape.in_count(), 1), w = exact_values(shape.filter_count(), 2),
             g = exact_values(shape.out_count(), 3);
  std::vector<float> y(g.size()), dx(x.size()), dw(w.size());
  for_each_product(shape, [&](std::size_t in, std::size_t filter, std::size_t out) {
    y[out] += x[in] * w[filter];
    dx[in] += g[out] * w[filter];
    dw[filter] += g[out] * x[in];
  });
  test::for_each_simd_target([&] {
    std::vector<float> found_y(y.size(), 9.5f), found_dx(x.size(), 9.5f), found_dw(w.size(), 9.5f);
    depthwise(x, w, shape, found_y);
    depthwise_input_gradient(g, w, shape, found_dx);
    depthwise_filter_gradient(g, x, shape, found_dw);
    CHECK(found_y == y);
    CHECK(found_dx == dx);
    CHECK(found_dw == dw);
  });
}

}  // namespace
}  // namespace eqt::model
