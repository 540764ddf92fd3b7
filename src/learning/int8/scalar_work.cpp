// SPDX-License-Identifier: Apache-2.0
// The passes as they are defined, without panels or frames.
#include <algorithm>
#include <vector>

#include "int8/convolution_work.hpp"

namespace eqt::int8 {
namespace {

using Bytes = std::span<const std::int8_t>;

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
            const std::int8_t* w = weights_.data() + (o * taps() + tap) * inputs;
            for (std::size_t c = 0; c < inputs; ++c) sums[from * inputs + c] += e * w[c];
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
    const std::size_t filter = taps() * inputs;  // weights of an output
    auto* sums = reinterpret_cast<std::int32_t*>(scratch.data());
    std::fill_n(sums, dw.size(), 0);
    for (std::size_t n = 0; n < scales.size(); ++n) {
      const std::int8_t* in = x.data() + n * shape_.in_count();
      const std::int8_t* sample = error.data() + n * shape_.out_count();
      for_each_pixel([&](int row, int column, std::size_t pixel) {
        for_each_tap(row, column, [&](std::size_t tap, std::size_t from) {
          for (std::size_t o = begin; o < end; ++o) {
            const int e = sample[pixel * outputs + o];
            std::int32_t* to = sums + (o * taps() + tap) * inputs;
            for (std::size_t c = 0; c < inputs; ++c)
              to[c] += e * (in[from * inputs + c] - zero_point);
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
      const std::int8_t* w = weights_.data() + (o * taps() + tap) * inputs;
      for (std::size_t c = 0; c < inputs; ++c) sum += (x[from * inputs + c] - zero_point) * w[c];
    });
    return sum;
  }

  ConvolutionShape shape_;
  std::vector<std::int8_t> weights_;
};

}  // namespace

std::unique_ptr<ConvolutionWork> make_scalar_work(const ConvolutionShape& shape) {
  return std::make_unique<ScalarWork>(shape);
}

}  // namespace eqt::int8
