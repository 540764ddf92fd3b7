// SPDX-License-Identifier: Apache-2.0
// Linear layers in float32, the same on all processors. No torch.

#pragma once

#include <cstddef>
#include <span>

namespace eqt::model::precision {

/// out (n, o) = x (n, i) * weight' (o, i) + bias (o), in 16 interleaved sums.
void dense_forward(std::span<const float> x, std::span<const float> weight,
                   std::span<const float> bias, std::span<float> out);

/// Overwrites dx, dweight and dbias with the gradients of x, weight and bias, from the gradient
/// g (n, o) of the output; what is empty is left out. Sums are in the order of samples.
void dense_backward(std::span<const float> g, std::span<const float> x,
                    std::span<const float> weight, std::size_t outputs, std::span<float> dx,
                    std::span<float> dweight, std::span<float> dbias);

}  // namespace eqt::model::precision
