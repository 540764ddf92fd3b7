// SPDX-License-Identifier: Apache-2.0
#include "int8/convolution.hpp"

#include <algorithm>
#include <vector>

#include "core/error.hpp"
#include "int8/convolution_work.hpp"
#include "int8/quantize.hpp"

namespace eqt::int8 {
namespace {

std::size_t count(int a, int b, int c) {
  return static_cast<std::size_t>(a) * static_cast<std::size_t>(b) * static_cast<std::size_t>(c);
}

std::unique_ptr<ConvolutionWork> make_work(const ConvolutionShape& shape, Kernels kernels) {
  const std::vector<Kernels> here = available();
  EQT_CHECK(std::ranges::find(here, kernels) != here.end(), "this processor has no {}",
            name_of(kernels));
  const TileKernels* tiles = tiles_of(kernels);
  return tiles == nullptr ? make_scalar_work(shape) : make_panel_work(shape, *tiles);
}

}  // namespace

std::size_t ConvolutionShape::in_count() const noexcept {
  return count(height, width, in_channels);
}
std::size_t ConvolutionShape::out_count() const noexcept {
  return count(out_height(), out_width(), out_channels);
}
std::size_t ConvolutionShape::weight_count() const noexcept {
  return count(kernel, kernel, in_channels) * static_cast<std::size_t>(out_channels);
}
std::size_t ConvolutionShape::macs() const noexcept {
  return count(out_height(), out_width(), 1) * weight_count();
}

Convolution::Convolution(const ConvolutionShape& shape, Kernels kernels)
    : shape_(shape), kernels_(kernels), scales_(static_cast<std::size_t>(shape.out_channels), 1) {
  EQT_CHECK(shape.height > 0 && shape.width > 0 && shape.in_channels > 0 && shape.out_channels > 0,
            "an image of {} x {} x {}, {} output channels", shape.height, shape.width,
            shape.in_channels, shape.out_channels);
  EQT_CHECK(shape.kernel % 2 == 1 && shape.kernel >= 1 && shape.kernel <= 11,
            "a kernel of {} a side", shape.kernel);
  EQT_CHECK(shape.stride == 1 || shape.stride == 2 || shape.stride == 4, "a stride of {}",
            shape.stride);
  const std::size_t products =
      count(shape.kernel, shape.kernel, std::max(shape.in_channels, shape.out_channels));
  EQT_CHECK(products <= kMostProducts, "sums of {} products", products);
  const std::size_t pixels = count(shape.out_height(), shape.out_width(), 1);
  EQT_CHECK(pixels <= kMostProducts, "sums of {} pixels", pixels);
  work_ = make_work(shape, kernels);
}

Convolution::~Convolution() = default;
Convolution::Convolution(Convolution&&) noexcept = default;
Convolution& Convolution::operator=(Convolution&&) noexcept = default;

std::size_t Convolution::weight_bytes() const noexcept { return work_->weight_bytes(); }

void Convolution::set_weights(std::span<const float> weights, bool one_scale) {
  EQT_CHECK(weights.size() == shape_.weight_count(), "{} weights, expected {}", weights.size(),
            shape_.weight_count());
  quantized_.resize(weights.size());
  const std::size_t row = weights.size() / scales_.size();
  const float all = one_scale ? largest_magnitude(weights, "weights") : 0;
  for (std::size_t o = 0; o < scales_.size(); ++o) {
    const auto own = weights.subspan(o * row, row);
    scales_[o] = quantize_signed(one_scale ? all : largest_magnitude(own, "weights"), own,
                                 std::span(quantized_).subspan(o * row, row));
  }
  work_->set_weights(quantized_);
}

std::size_t Convolution::scratch_bytes(int samples) const {
  EQT_CHECK(samples >= 1, "{} samples", samples);
  return work_->scratch_bytes(samples);
}

void Convolution::check(std::size_t samples, std::size_t in, std::size_t out,
                        std::span<const std::byte> scratch) const {
  EQT_CHECK(in == samples * shape_.in_count() && out == samples * shape_.out_count(),
            "{} samples with {} values of input and {} of output, expected {} and {} a sample",
            samples, in, out, shape_.in_count(), shape_.out_count());
  EQT_CHECK(scratch.size() >= scratch_bytes(static_cast<int>(samples)),
            "{} bytes of scratch, expected {}", scratch.size(),
            scratch_bytes(static_cast<int>(samples)));
  EQT_CHECK(reinterpret_cast<std::uintptr_t>(scratch.data()) % 64 == 0, "scratch at {}",
            static_cast<const void*>(scratch.data()));
}

void Convolution::forward(std::span<const std::int8_t> x, int zero_point,
                          std::span<const float> scales, std::span<float> out,
                          std::span<std::byte> scratch) const {
  check(scales.size(), x.size(), out.size(), scratch);
  work_->forward(x, zero_point, scales, scales_, out, scratch);
}

void Convolution::backward_input(std::span<const std::int8_t> error, std::span<const float> scales,
                                 std::span<float> dx, std::span<std::byte> scratch) const {
  check(scales.size(), dx.size(), error.size(), scratch);
  work_->backward_input(error, scales, dx, scratch);
}

void Convolution::add_weight_gradient(std::span<const std::int8_t> x, int zero_point,
                                      std::span<const float> scales,
                                      std::span<const std::int8_t> error,
                                      std::span<const float> error_scales, std::span<float> dw,
                                      std::span<std::byte> scratch, OutputPart part) const {
  check(scales.size(), x.size(), error.size(), scratch);
  EQT_CHECK(error_scales.size() == scales.size(), "{} scales of errors for {} samples",
            error_scales.size(), scales.size());
  EQT_CHECK(dw.size() == shape_.weight_count(), "a gradient of {} values, expected {}", dw.size(),
            shape_.weight_count());
  EQT_CHECK(part.index < part.count, "part {} of {}", part.index, part.count);
  work_->add_weight_gradient(x, zero_point, scales, error, error_scales, dw, scratch, part);
}

}  // namespace eqt::int8
