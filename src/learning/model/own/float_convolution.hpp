// SPDX-License-Identifier: Apache-2.0
// A convolution with float32 operands, with the interface of int8::Convolution. No torch.
//
// Layouts  (N, H, W, C), weights (O, kh, kw, C), of depthwise convolutions (O, kh, kw); the image
//          is framed by kernel / 2 zeros
// Numbers  a value of out, dx or dw is one sum in float32, in the order of rows, columns and
//          channels, or of pixels: the same on all processors with fused multiply-add, whatever the
//          width of their vectors

#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "int8/convolution.hpp"

namespace eqt::model::precision {

/// One layer. Calls of the const members may run at the same time, each with scratch of its own.
class FloatConvolution {
 public:
  explicit FloatConvolution(const int8::ConvolutionShape& shape);

  /// Bytes of the weights, as the two passes over them read them.
  std::size_t weight_bytes() const noexcept {
    return (forward_.size() + backward_.size()) * sizeof(float);
  }
  /// @param one_scale  floats have none
  void set_weights(std::span<const float> weights, bool one_scale = false);
  std::span<const float> weight_scales() const noexcept { return ones_; }  // (O), all 1

  /// Bytes of `scratch` that each call below needs; aligned to 64.
  std::size_t scratch_bytes(int samples = 1) const;

  // Scales are 1, zero points 0; `scales` only counts the samples.
  void forward(std::span<const float> x, int zero_point, std::span<const float> scales,
               std::span<float> out, std::span<std::byte> scratch) const;
  void backward_input(std::span<const float> error, std::span<const float> scales,
                      std::span<float> dx, std::span<std::byte> scratch) const;
  void add_weight_gradient(std::span<const float> x, int zero_point, std::span<const float> scales,
                           std::span<const float> error, std::span<const float> error_scales,
                           std::span<float> dw, std::span<std::byte> scratch,
                           int8::OutputPart part = {}) const;

 private:
  void add_filter_gradients(std::span<const float> x, std::span<const float> error,
                            std::span<float> dw, std::span<float> filters,
                            int8::OutputPart part) const;

  int8::ConvolutionShape shape_;
  std::vector<float> ones_;
  // Panels of weights; of depthwise convolutions forward_ are the filters (taps, C).
  std::vector<float> forward_, backward_;
};

/// The weight gradient of 8-bit layers from float32 errors, as in the released code of the 8-bit
/// papers: dw (O, kh, kw, C) += the gradient of a sample, each value summed over the pixels in
/// float32, row after row, without fused multiply-add: the same on all processors.
/// @param x  (H, W, C)
/// @param error  (H', W', O)
void add_float_gradient(const int8::ConvolutionShape& shape, std::span<const float> x,
                        std::span<const float> error, std::span<float> dw);

}  // namespace eqt::model::precision
