// SPDX-License-Identifier: Apache-2.0
// Weight gradients of float32 errors against sums in float64.

#include "model/own/float_convolution.hpp"

#include <cmath>
#include <vector>

#include "core/random.hpp"
#include "support/catch.hpp"
#include "support/simd_targets.hpp"

namespace eqt::model::precision {
namespace {

std::vector<double> expected(const int8::ConvolutionShape& s, const std::vector<float>& x,
                             const std::vector<float>& error) {
  std::vector<double> dw(s.weight_count());
  std::size_t w = 0;
  for (int o = 0; o < s.out_channels; ++o)
    for (int i = 0; i < s.kernel; ++i)
      for (int j = 0; j < s.kernel; ++j)
        for (int c = s.depthwise ? o : 0; c < (s.depthwise ? o + 1 : s.in_channels); ++c, ++w)
          for (int row = 0; row < s.out_height(); ++row)
            for (int column = 0; column < s.out_width(); ++column) {
              const int y = row * s.stride + i - s.kernel / 2;
              const int z = column * s.stride + j - s.kernel / 2;
              if (y < 0 || z < 0 || y >= s.height || z >= s.width) continue;
              const auto from = static_cast<std::size_t>((y * s.width + z) * s.in_channels + c);
              const auto to =
                  static_cast<std::size_t>((row * s.out_width() + column) * s.out_channels + o);
              dw[w] += static_cast<double>(x[from]) * error[to];
            }
  return dw;
}

TEST_CASE("weight gradients of float errors are sums over pixels, equal on all processors") {
  const int8::ConvolutionShape shape =
      GENERATE(values<int8::ConvolutionShape>({{8, 8, 16, 16, 3, 1},
                                               {7, 5, 20, 6, 3, 2},
                                               {32, 32, 3, 16, 3, 1},
                                               {6, 6, 8, 12, 1, 2},
                                               {1, 1, 16, 4, 3, 1},
                                               {9, 8, 3, 5, 11, 4},
                                               {4, 4, 5, 7, 5, 1},
                                               {9, 6, 20, 20, 5, 2, true}}));
  CAPTURE(shape.height, shape.width, shape.in_channels, shape.kernel, shape.stride);
  const RandomStream random({.run_seed = 5});
  std::uint32_t i = 0;
  const auto draw = [&](std::size_t count) {
    std::vector<float> values;
    while (values.size() < count) values.push_back(2 * random.uniform(i++) - 1);
    return values;
  };
  const std::vector<float> x = draw(shape.in_count()), error = draw(shape.out_count());
  const std::vector<double> wanted = expected(shape, x, error);
  std::vector<float> first;
  test::for_each_simd_target([&] {
    std::vector<float> dw(shape.weight_count(), 1.0f);
    add_float_gradient(shape, x, error, dw);
    if (first.empty()) first = dw;
    CHECK(dw == first);
    double difference = 0;
    for (std::size_t k = 0; k < dw.size(); ++k)
      difference = std::fmax(difference, std::abs(dw[k] - 1 - wanted[k]));
    CHECK(difference < 1e-4);
  });
}

}  // namespace
}  // namespace eqt::model::precision
