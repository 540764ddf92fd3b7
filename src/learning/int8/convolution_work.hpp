// SPDX-License-Identifier: Apache-2.0
// How one family of kernels computes the passes of Convolution, which has checked sizes and scales.

#pragma once

#include <memory>

#include "int8/convolution.hpp"
#include "int8/tiles.hpp"

namespace eqt::int8 {

class ConvolutionWork {
 public:
  virtual ~ConvolutionWork() = default;

  /// q: (O, kh, kw, C), in [-127, 127].
  virtual void set_weights(std::span<const std::int8_t> q) = 0;
  virtual std::size_t weight_bytes() const noexcept = 0;
  virtual std::size_t scratch_bytes(int samples) const = 0;

  /// These do what Convolution's functions of the same names do. @param weight_scales  (O)
  virtual void forward(std::span<const std::int8_t> x, int zero_point,
                       std::span<const float> scales, std::span<const float> weight_scales,
                       std::span<float> out, std::span<std::byte> scratch) const = 0;
  virtual void backward_input(std::span<const std::int8_t> error, std::span<const float> scales,
                              std::span<float> dx, std::span<std::byte> scratch) const = 0;
  virtual void add_weight_gradient(std::span<const std::int8_t> x, int zero_point,
                                   std::span<const float> scales,
                                   std::span<const std::int8_t> error,
                                   std::span<const float> error_scales, std::span<float> dw,
                                   std::span<std::byte> scratch, OutputPart part) const = 0;
};

/// Computes depthwise convolutions, with whatever vectors the processor has.
std::unique_ptr<ConvolutionWork> make_depthwise_work(const ConvolutionShape& shape);

/// Tiles of vectors. @param kernels  must outlive it
std::unique_ptr<ConvolutionWork> make_panel_work(const ConvolutionShape& shape,
                                                 const TileKernels& kernels);

}  // namespace eqt::int8
