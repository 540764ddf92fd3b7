// SPDX-License-Identifier: Apache-2.0
// Vector kernels of the EvoNorms: x * sigmoid(v * x), scaled, and its gradient. No torch.
//
// Source   H. Liu et al., NeurIPS 2020, arXiv:2004.02967, table 2 (S0)
// Symbols  z = v * x, h = sigmoid(z), u = x * h, y = u * scale + shift + residual, g = dL/dy
// Shapes   as in norm_kernels.hpp; blocks belong to one sample
// Error    of the exact sigmoid, relative: below 4e-7 + 2e-8 |z|, without fused multiply-add below
//          1e-6 + 1e-7 |z|; z is clamped to |z| <= 80
// Numbers  each sum runs over tiles of a block first, so that it rounds like a short one
//
// Backward computes sigmoids again: an exponential takes less time than reading a stored result.

#pragma once

#include <cstddef>
#include <span>

namespace eqt::model {

enum class Sigmoid {
  exact,  // 1 / (1 + exp(-z))
  hard,   // clamp(z / 6 + 1/2, 0, 1): Howard et al. 2019, arXiv:1905.02244, section 5.2
};

/// The map of an EvoNorm for a channel of a sample.
struct GatedMap {
  std::span<const float> v;
  std::span<const float> scale;
  std::span<const float> shift;
};

/// y = x * h(v * x) * scale + shift, plus `residual` unless it is empty.
void gate_rows(Sigmoid sigmoid, std::span<const float> x, std::span<const float> residual,
               const GatedMap& map, std::span<float> y);

/// Sums over a block of rows, by channel.
struct GatedSums {
  std::span<float> sums;      // of g
  std::span<float> products;  // of g * u
  std::span<float> slopes;    // of g * x^2 * h'(z)
};

/// dx = g * scale * (h + z * h'): the gradient except for the part through the scale; and the sums.
void gate_gradient(Sigmoid sigmoid, std::span<const float> g, std::span<const float> x,
                   const GatedMap& map, const GatedSums& sums, std::span<float> dx);

/// dx -= (x - mean) * slope
void subtract_regression(std::span<const float> x, std::span<const float> mean,
                         std::span<const float> slope, std::span<float> dx);

}  // namespace eqt::model
