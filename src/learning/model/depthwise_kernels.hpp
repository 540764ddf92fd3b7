// SPDX-License-Identifier: Apache-2.0
// Vector kernels of depthwise convolutions, in which each channel has a filter of its own, and of
// their gradients. No torch.
//
// Source   A. Howard et al., arXiv:1704.04861, section 3.1, without the 1 x 1 convolution behind it
// Shapes   images are (height, width, channels) row-major, as channels-last samples lie in memory;
//          filters are (kernel * kernel, channels), so that vectors of channels are contiguous
// Numbers  a pixel's products are added in float32, in the order of the filter's rows; a filter's
//          gradient is added over the pixels of a sample, row by row

#pragma once

#include <cstddef>
#include <span>

namespace eqt::model {

/// The sizes of a sample and of the filter that runs over it, padded with zeros on all sides.
struct DepthwiseShape {
  std::size_t height = 0, width = 0, channels = 0;  // of the input
  std::size_t kernel = 3, stride = 1, padding = 1;

  /// @pre the padded image is at least as large as the filter
  std::size_t out_height() const { return (height + 2 * padding - kernel) / stride + 1; }
  std::size_t out_width() const { return (width + 2 * padding - kernel) / stride + 1; }
  std::size_t in_count() const { return height * width * channels; }
  std::size_t out_count() const { return out_height() * out_width() * channels; }
  std::size_t filter_count() const { return kernel * kernel * channels; }
};

inline constexpr std::size_t kWidestFilter = 7;  // [pixels] of a side that the kernels take

/// @param y  a sample's output
void depthwise(std::span<const float> x, std::span<const float> filters,
               const DepthwiseShape& shape, std::span<float> y);

/// @param g  the gradient of a sample's output
/// @param dx  the gradient of its input
void depthwise_input_gradient(std::span<const float> g, std::span<const float> filters,
                              const DepthwiseShape& shape, std::span<float> dx);

/// @param dw  the gradient of the filters, of one sample
void depthwise_filter_gradient(std::span<const float> g, std::span<const float> x,
                               const DepthwiseShape& shape, std::span<float> dw);

}  // namespace eqt::model
