// SPDX-License-Identifier: Apache-2.0
#include "model/own/dense.hpp"

#include <algorithm>
#include <cstddef>

#include "core/error.hpp"

namespace eqt::model::precision {
namespace {

constexpr std::size_t kDenseLanes = 16;

float dot(const float* a, const float* b, std::size_t count) {
  float sums[kDenseLanes] = {};
  std::size_t i = 0;
  for (; i + kDenseLanes <= count; i += kDenseLanes)
    for (std::size_t k = 0; k < kDenseLanes; ++k) sums[k] += a[i + k] * b[i + k];
  for (std::size_t k = 0; i + k < count; ++k) sums[k] += a[i + k] * b[i + k];
  for (std::size_t half = kDenseLanes / 2; half > 0; half /= 2)
    for (std::size_t k = 0; k < half; ++k) sums[k] += sums[k + half];
  return sums[0];
}

void add_multiple(float factor, const float* x, float* to, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) to[i] += factor * x[i];
}

}  // namespace

void dense_forward(std::span<const float> x, std::span<const float> weight,
                   std::span<const float> bias, std::span<float> out) {
  const std::size_t outputs = bias.size(), inputs = weight.size() / outputs;
  const std::size_t n = x.size() / inputs;
  EQT_CHECK(out.size() == n * outputs, "{} outputs of {} samples", out.size(), n);
  for (std::size_t s = 0; s < n; ++s)
    for (std::size_t o = 0; o < outputs; ++o)
      out[s * outputs + o] = dot(&x[s * inputs], &weight[o * inputs], inputs) + bias[o];
}

void dense_backward(std::span<const float> g, std::span<const float> x,
                    std::span<const float> weight, std::size_t outputs, std::span<float> dx,
                    std::span<float> dweight, std::span<float> dbias) {
  const std::size_t inputs = weight.size() / outputs, n = x.size() / inputs;
  EQT_CHECK(g.size() == n * outputs, "{} gradients of {}", g.size(), n);
  std::ranges::fill(dx, 0.0f);
  std::ranges::fill(dweight, 0.0f);
  std::ranges::fill(dbias, 0.0f);
  for (std::size_t s = 0; s < n; ++s) {
    for (std::size_t o = 0; o < outputs; ++o) {
      const float d = g[s * outputs + o];
      if (!dbias.empty()) dbias[o] += d;
      if (!dweight.empty()) add_multiple(d, &x[s * inputs], &dweight[o * inputs], inputs);
      if (!dx.empty()) add_multiple(d, &weight[o * inputs], &dx[s * inputs], inputs);
    }
  }
}

}  // namespace eqt::model::precision
