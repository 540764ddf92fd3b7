// SPDX-License-Identifier: Apache-2.0
// Weight gradients from float32 errors, as in the released code of the 8-bit papers. No torch.

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "int8/convolution.hpp"

namespace eqt::model::precision {

/// dw (O, kh, kw, C) += the gradient of a sample, each value summed over the pixels in float32, row
/// after row: the same on all processors.
/// @param x  (H, W, C)
/// @param error  (H', W', O)
void add_float_gradient(const int8::ConvolutionShape& shape, std::span<const float> x,
                        std::span<const float> error, std::span<float> dw);

}  // namespace eqt::model::precision
