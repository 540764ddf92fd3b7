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

using Bytes = std::span<const std::int8_t>;

/// The passes as they are defined, without panels or frames: for any processor.
class ScalarWork final : public ConvolutionWork {
 public:
  explicit ScalarWork(const ConvolutionShape& shape) : shape_(shape) {}

  void set_weights(Bytes q) override { weights_.assign(q.begin(), q.end()); }
  std::size_t weight_bytes() const noexcept override { return shape_.weight_count(); }
  std::size_t scratch_bytes(int) const override {
    return sizeof(std::int32_t) * std::max(shape_.in_count(), shape_.weight_count());
  }

  void forward(Bytes x, int zero_point, std::span<const float> scales,
               std::span<const float> weight_scales, std::span<float> out,
               std::span<std::byte> /*scratch*/) const override {
    const std::size_t outputs = at(shape_.out_channels);
    for (std::size_t n = 0; n < scales.size(); ++n) {
      const std::int8_t* sample = x.data() + n * shape_.in_count();
      float* to = out.data() + n * shape_.out_count();
      for_each_pixel([&](int row, int column, std::size_t pixel) {
        for (std::size_t o = 0; o < outputs; ++o) {
          const std::int32_t sum = sum_at(sample, zero_point, row, column, o);
          to[pixel * outputs + o] = static_cast<float>(sum) * (scales[n] * weight_scales[o]);
        }
      });
    }
  }

  void backward_input(Bytes error, std::span<const float> scales, std::span<float> dx,
                      std::span<std::byte> scratch) const override {
    const std::size_t outputs = at(shape_.out_channels), inputs = at(shape_.in_channels);
    auto* sums = reinterpret_cast<std::int32_t*>(scratch.data());
    for (std::size_t n = 0; n < scales.size(); ++n) {
      std::fill_n(sums, shape_.in_count(), 0);
      const std::int8_t* sample = error.data() + n * shape_.out_count();
      for_each_pixel([&](int row, int column, std::size_t pixel) {
        for_each_tap(row, column, [&](std::size_t tap, std::size_t from) {
          for (std::size_t o = 0; o < outputs; ++o) {
            const int e = sample[pixel * outputs + o];
            const std::int8_t* w = weights_.data() + (o * taps() + tap) * read_by_output();
            std::int32_t* to = sums + from * inputs + first_read_by(o);
            for (std::size_t c = 0; c < read_by_output(); ++c) to[c] += e * w[c];
          }
        });
      });
      float* to = dx.data() + n * shape_.in_count();
      for (std::size_t i = 0; i < shape_.in_count(); ++i)
        to[i] = static_cast<float>(sums[i]) * scales[n];
    }
  }

  void add_weight_gradient(Bytes x, int zero_point, std::span<const float> scales, Bytes error,
                           std::span<const float> error_scales, std::span<float> dw,
                           std::span<std::byte> scratch, OutputPart part) const override {
    const std::size_t outputs = at(shape_.out_channels), inputs = at(shape_.in_channels);
    const std::size_t begin = outputs * part.index / part.count;
    const std::size_t end = outputs * (part.index + 1) / part.count;
    const std::size_t filter = shape_.row_count();
    auto* sums = reinterpret_cast<std::int32_t*>(scratch.data());
    std::fill_n(sums, dw.size(), 0);
    for (std::size_t n = 0; n < scales.size(); ++n) {
      const std::int8_t* in = x.data() + n * shape_.in_count();
      const std::int8_t* sample = error.data() + n * shape_.out_count();
      for_each_pixel([&](int row, int column, std::size_t pixel) {
        for_each_tap(row, column, [&](std::size_t tap, std::size_t from) {
          for (std::size_t o = begin; o < end; ++o) {
            const int e = sample[pixel * outputs + o];
            std::int32_t* to = sums + (o * taps() + tap) * read_by_output();
            const std::int8_t* values = in + from * inputs + first_read_by(o);
            for (std::size_t c = 0; c < read_by_output(); ++c)
              to[c] += e * (values[c] - zero_point);
          }
        });
      });
      const bool last = n + 1 == scales.size() || scales[n + 1] != scales[n] ||
                        error_scales[n + 1] != error_scales[n];
      if (!last) continue;
      const float scale = scales[n] * error_scales[n];
      for (std::size_t i = begin * filter; i < end * filter; ++i)
        dw[i] += static_cast<float>(sums[i]) * scale;
      std::fill_n(sums, dw.size(), 0);
    }
  }

 private:
  static std::size_t at(int number) { return static_cast<std::size_t>(number); }
  std::size_t taps() const { return at(shape_.kernel * shape_.kernel); }
  /// The channels of the input that an output channel reads.
  std::size_t read_by_output() const { return shape_.depthwise ? 1 : at(shape_.in_channels); }
  std::size_t first_read_by(std::size_t output) const { return shape_.depthwise ? output : 0; }

  /// f(row, column, index) of every output pixel.
  template <typename F>
  void for_each_pixel(F f) const {
    std::size_t pixel = 0;
    for (int row = 0; row < shape_.out_height(); ++row)
      for (int column = 0; column < shape_.out_width(); ++column) f(row, column, pixel++);
  }

  /// f(tap, input pixel) of every tap of an output pixel that lies in the image.
  template <typename F>
  void for_each_tap(int row, int column, F f) const {
    const int top = row * shape_.stride - shape_.kernel / 2;
    const int left = column * shape_.stride - shape_.kernel / 2;
    for (int i = 0; i < shape_.kernel; ++i) {
      for (int j = 0; j < shape_.kernel; ++j) {
        if (top + i < 0 || top + i >= shape_.height || left + j < 0 || left + j >= shape_.width)
          continue;
        f(at(i * shape_.kernel + j), at((top + i) * shape_.width + left + j));
      }
    }
  }

  std::int32_t sum_at(const std::int8_t* x, int zero_point, int row, int column,
                      std::size_t o) const {
    const std::size_t inputs = at(shape_.in_channels);
    std::int32_t sum = 0;
    for_each_tap(row, column, [&](std::size_t tap, std::size_t from) {
      const std::int8_t* w = weights_.data() + (o * taps() + tap) * read_by_output();
      const std::int8_t* values = x + from * inputs + first_read_by(o);
      for (std::size_t c = 0; c < read_by_output(); ++c) sum += (values[c] - zero_point) * w[c];
    });
    return sum;
  }

  ConvolutionShape shape_;
  std::vector<std::int8_t> weights_;
};

std::unique_ptr<ConvolutionWork> make_work(const ConvolutionShape& shape, Kernels kernels) {
  const std::vector<Kernels> here = available();
  EQT_CHECK(std::ranges::find(here, kernels) != here.end(), "this processor has no {}",
            name_of(kernels));
  const TileKernels* tiles = tiles_of(kernels);
  if (tiles == nullptr) return std::make_unique<ScalarWork>(shape);
  return shape.depthwise ? make_depthwise_work(shape) : make_panel_work(shape, *tiles);
}

}  // namespace

std::size_t ConvolutionShape::in_count() const noexcept {
  return count(height, width, in_channels);
}
std::size_t ConvolutionShape::out_count() const noexcept {
  return count(out_height(), out_width(), out_channels);
}
std::size_t ConvolutionShape::row_count() const noexcept {
  return count(kernel, kernel, depthwise ? 1 : in_channels);
}
std::size_t ConvolutionShape::weight_count() const noexcept {
  return row_count() * static_cast<std::size_t>(out_channels);
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
  EQT_CHECK(!shape.depthwise || shape.in_channels == shape.out_channels,
            "a depthwise convolution of {} channels to {}", shape.in_channels, shape.out_channels);
  const std::size_t products =
      count(shape.kernel, shape.kernel,
            shape.depthwise ? 1 : std::max(shape.in_channels, shape.out_channels));
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

void Convolution::set_rounded(std::span<const std::int8_t> weights, float scale) {
  EQT_CHECK(weights.size() == shape_.weight_count(), "{} weights, expected {}", weights.size(),
            shape_.weight_count());
  quantized_.assign(weights.begin(), weights.end());
  std::ranges::fill(scales_, scale);
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
