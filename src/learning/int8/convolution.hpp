// SPDX-License-Identifier: Apache-2.0
// Convolutions of 8-bit operands: forward, the error of the input (dX) and the weight gradient
// (dW), with exact sums of 32 bits. All families of kernels give the same floats.
//
// Layouts are those of channels-last: samples (H, W, C), weights (O, kh, kw, C), one after the
// other. A call takes one sample, or several with a scale for each; several at once read the
// weights and write dW less often, which pays where images are small (8 x 8 and less). Weights of
// depthwise convolutions are (O, kh, kw).
//
// Rounding: a sum s becomes a float to nearest, then out = s * (scale * weight_scale[o]),
// dx = s * scale and dw = dw + s * (scale * error_scale), each operation rounded once.

#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "core/rounded_rows.hpp"
#include "int8/kernels.hpp"

namespace eqt::int8 {

struct ConvolutionShape {
  int height = 0, width = 0;  // of the input
  int in_channels = 0, out_channels = 0;
  int kernel = 3;          // odd, at most 11 a side; the input is framed by kernel / 2 zeros
  int stride = 1;          // 1, 2 or 4
  bool depthwise = false;  // each channel has a filter of its own; as many go out as come in

  int out_height() const noexcept { return (height - 1) / stride + 1; }
  int out_width() const noexcept { return (width - 1) / stride + 1; }
  bool operator==(const ConvolutionShape&) const = default;

  std::size_t in_count() const noexcept;      // values of an input sample
  std::size_t out_count() const noexcept;     // values of an output sample
  std::size_t row_count() const noexcept;     // weights of an output channel: kh kw C, or kh kw
  std::size_t weight_count() const noexcept;  // of all of them
  std::size_t macs() const noexcept;  // multiply-adds of each pass and sample, frame included
};

/// One of several equal parts of the output channels.
struct OutputPart {
  std::size_t index = 0, count = 1;
};

class ConvolutionWork;

/// Products of 8-bit operands whose sum surely fits 32 bits: k * 255 * 127 < 2^31. Of an output in
/// the two passes with the weights; of a weight's gradient, the pixels of a sample's output.
inline constexpr std::size_t kMostProducts = 66310;

/// One layer. The caller owns every buffer; calls of the const members may run at the same time,
/// each with scratch memory of its own.
class Convolution {
 public:
  /// @throws Error{bug} if a sum may not fit 32 bits, or if the processor cannot run `kernels`
  explicit Convolution(const ConvolutionShape& shape, Kernels kernels = fastest_here());
  ~Convolution();
  Convolution(Convolution&&) noexcept;
  Convolution& operator=(Convolution&&) noexcept;

  const ConvolutionShape& shape() const noexcept { return shape_; }
  Kernels kernels() const noexcept { return kernels_; }
  /// Bytes of the quantized weights, as all passes read them.
  std::size_t weight_bytes() const noexcept;

  /// Quantizes (O, kh, kw, C) floats, with one scale max |w| / 127 for each output channel, to
  /// nearest in [-127, 127]. @throws Error{diverged} if one is NaN or infinite
  /// @param one_scale  all channels have that of the largest of them
  void set_weights(std::span<const float> weights, bool one_scale = false);
  /// Takes weights (O, kh, kw, C) that are rounded, in [-127, 127] with one scale.
  void set_rounded(std::span<const std::int8_t> weights, float scale);
  std::span<const float> weight_scales() const noexcept { return scales_; }  // (O)
  RoundedRows weights() const noexcept { return {quantized_, scales_}; }

  /// Bytes of `scratch` that each call below needs for this many samples; aligned to 64.
  std::size_t scratch_bytes(int samples = 1) const;

  /// x (N, H, W, C) -> out (N, H', W', O). @param scales  (N), of the samples of x
  void forward(std::span<const std::int8_t> x, int zero_point, std::span<const float> scales,
               std::span<float> out, std::span<std::byte> scratch) const;
  void forward(std::span<const std::int8_t> x, int zero_point, float scale, std::span<float> out,
               std::span<std::byte> scratch) const {
    forward(x, zero_point, std::span(&scale, 1), out, scratch);
  }

  /// error (N, H', W', O) -> dx (N, H, W, C), overwritten. The weights count without their scales:
  /// the caller multiplies channel o of the error by weight_scales()[o] before it is quantized.
  /// @param scales  (N), of the samples of error; its zero point is 0, and it has no -128
  void backward_input(std::span<const std::int8_t> error, std::span<const float> scales,
                      std::span<float> dx, std::span<std::byte> scratch) const;
  void backward_input(std::span<const std::int8_t> error, float scale, std::span<float> dx,
                      std::span<std::byte> scratch) const {
    backward_input(error, std::span(&scale, 1), dx, scratch);
  }

  /// Adds the gradient to dw (O, kh, kw, C), sample after sample; neighbours with the same scales
  /// are summed as integers first. What was multiplied into the error is in dw as well.
  /// @param part  only the rows of dw of these output channels; all parts together are the whole
  /// @pre the pixels (N, H', W') with the same scales are less than 66311
  void add_weight_gradient(std::span<const std::int8_t> x, int zero_point,
                           std::span<const float> scales, std::span<const std::int8_t> error,
                           std::span<const float> error_scales, std::span<float> dw,
                           std::span<std::byte> scratch, OutputPart part = {}) const;
  void add_weight_gradient(std::span<const std::int8_t> x, int zero_point, float scale,
                           std::span<const std::int8_t> error, float error_scale,
                           std::span<float> dw, std::span<std::byte> scratch) const {
    add_weight_gradient(x, zero_point, std::span(&scale, 1), error, std::span(&error_scale, 1), dw,
                        scratch);
  }

 private:
  void check(std::size_t samples, std::size_t in, std::size_t out,
             std::span<const std::byte> scratch) const;

  ConvolutionShape shape_;
  Kernels kernels_;
  std::vector<float> scales_;
  std::vector<std::int8_t> quantized_;
  std::unique_ptr<ConvolutionWork> work_;
};

}  // namespace eqt::int8
