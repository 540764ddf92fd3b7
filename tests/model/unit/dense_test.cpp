// SPDX-License-Identifier: Apache-2.0
// Linear layers against plain loops that add in the documented order, on every instruction set.

#include "model/own/dense.hpp"

#include <array>
#include <vector>

#include "support/catch.hpp"
#include "support/gaussian.hpp"
#include "support/simd_targets.hpp"

namespace eqt::model::precision {
namespace {

/// Returns the product of two rows: 16 interleaved sums, which are added in halves.
float interleaved(const float* a, const float* b, std::size_t count) {
  std::array<float, 16> sums{};
  for (std::size_t i = 0; i < count; ++i) sums[i % 16] += a[i] * b[i];
  for (std::size_t half = 8; half > 0; half /= 2)
    for (std::size_t k = 0; k < half; ++k) sums[k] += sums[k + half];
  return sums[0];
}

TEST_CASE("linear layers and their gradients are those of plain loops, bit for bit", "[dense]") {
  const std::size_t n = GENERATE(as<std::size_t>(), 1, 4, 7);
  const std::size_t inputs = GENERATE(as<std::size_t>(), 1, 16, 45, 130);
  const std::size_t outputs = GENERATE(as<std::size_t>(), 1, 6, 20);
  CAPTURE(n, inputs, outputs);
  const auto values = [](std::size_t count, std::uint32_t slice) {
    return test::gaussian(count, {.run_seed = 8, .slice = slice});
  };
  const auto x = values(n * inputs, 1), weight = values(outputs * inputs, 2),
             bias = values(outputs, 3), g = values(n * outputs, 4);
  std::vector<float> out(n * outputs), dx(x.size()), dweight(weight.size()), dbias(outputs);
  for (std::size_t s = 0; s < n; ++s) {
    for (std::size_t o = 0; o < outputs; ++o) {
      const float d = g[s * outputs + o];
      out[s * outputs + o] = interleaved(&x[s * inputs], &weight[o * inputs], inputs) + bias[o];
      dbias[o] += d;
      for (std::size_t i = 0; i < inputs; ++i) {
        dweight[o * inputs + i] += d * x[s * inputs + i];
        dx[s * inputs + i] += d * weight[o * inputs + i];
      }
    }
  }
  test::for_each_simd_target([&] {
    std::vector<float> found(out.size(), 9.5f), found_dx(dx.size(), 9.5f),
        found_dweight(dweight.size(), 9.5f), found_dbias(outputs, 9.5f);
    dense_forward(x, weight, bias, found);
    dense_backward(g, x, weight, outputs, found_dx, found_dweight, found_dbias);
    CHECK(found == out);
    CHECK(found_dx == dx);
    CHECK(found_dweight == dweight);
    CHECK(found_dbias == dbias);
    dense_backward(g, x, weight, outputs, {}, {}, {});  // frozen, in front of all that learns
  });
}

}  // namespace
}  // namespace eqt::model::precision
