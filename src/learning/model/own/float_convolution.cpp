// SPDX-License-Identifier: Apache-2.0
#include "model/own/float_convolution.hpp"

#include <algorithm>
#include <type_traits>
#include <utility>

#include "core/error.hpp"
#include "model/depthwise_kernels.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "model/own/float_convolution.cpp"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

#ifndef EQT_MODEL_PRECISION_FLOAT_CONVOLUTION_ONCE
#define EQT_MODEL_PRECISION_FLOAT_CONVOLUTION_ONCE
namespace eqt::model::precision {

constexpr std::size_t kPanel = 16;  // channels whose sums are computed together

/// An image with its frame of zeros, and the windows that outputs read of it.
struct Windows {
  const float* frame;
  std::size_t rows;                   // of a window
  std::size_t row_values;             // of a row of a window, which lie together
  std::size_t frame_row;              // values from a row of the frame to the next
  std::size_t window_row, window;     // values from a row of outputs, an output to the next
  std::size_t out_height, out_width;  // outputs
};

constexpr std::size_t kOutputs = 8;  // output channels at a time

/// A tap of the kernel: output pixels (first ... last - 1) along each axis read input pixel
/// place * stride + shift.
struct Reach {
  int first_row, last_row, first_column, last_column;
  int row_shift, column_shift;
};

}  // namespace eqt::model::precision
#endif

HWY_BEFORE_NAMESPACE();
namespace eqt::model::precision::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Outputs whose sums are in registers: of AVX-512 and NEON there are 32, else 16.
constexpr std::size_t kMost = HWY_MAX_BYTES >= 64                   ? 12
                              : HWY_MAX_BYTES == 16 && HWY_ARCH_X86 ? 3
                                                                    : 6;

/// kPanel sums.
struct Lanes {
  using Tag = hn::CappedTag<float, kPanel>;
  static constexpr std::size_t kLanes = hn::MaxLanes(Tag());
  static constexpr std::size_t kVectors = kPanel / kLanes;
  hn::Vec<Tag> vectors[kVectors];

  HWY_INLINE Lanes() {
    for (auto& v : vectors) v = hn::Zero(Tag());
  }
  HWY_INLINE void add_product(float a, const float* b) {
    const auto factor = hn::Set(Tag(), a);
    for (std::size_t i = 0; i < kVectors; ++i)
      vectors[i] = hn::MulAdd(factor, hn::LoadU(Tag(), b + i * kLanes), vectors[i]);
  }
  HWY_INLINE void store(float* to) const {
    for (std::size_t i = 0; i < kVectors; ++i) hn::StoreU(vectors[i], Tag(), to + i * kLanes);
  }
};

template <std::size_t kCount>
using Tile = std::integral_constant<std::size_t, kCount>;

/// act(Tile<count>()).
template <typename Act>
HWY_INLINE void in_one_tile(std::size_t count, Act act) {
  const auto one_of = [&]<std::size_t... kSizes>(std::index_sequence<kSizes...>) HWY_ATTR {
    const auto fits = [&](auto tile) HWY_ATTR {
      if (tile == count) act(tile);
    };
    (fits(Tile<kSizes + 1>()), ...);
  };
  one_of(std::make_index_sequence<kMost>());
}

/// Calls act(Tile) for tiles that add up to `count`, as few and as equal as can be: the additions
/// of few sums wait for each other. The sums do not depend on the tiles.
template <typename Act>
HWY_INLINE void in_tiles(std::size_t count, Act act) {
  for (std::size_t tiles = (count + kMost - 1) / kMost; tiles > 0; --tiles) {
    const std::size_t size = (count + tiles - 1) / tiles;
    in_one_tile(size, act);
    count -= size;
  }
}

/// kCount outputs of a row from x on, for a panel of channels.
template <std::size_t kCount>
HWY_INLINE void correlate_some(const Windows& w, const float* HWY_RESTRICT panel,
                               const float* HWY_RESTRICT from, std::size_t channels,
                               std::size_t width, float* HWY_RESTRICT out) {
  Lanes sums[kCount];
  for (std::size_t i = 0; i < w.rows; ++i) {
    const float* const row = from + i * w.frame_row;
    for (std::size_t k = 0; k < w.row_values; ++k, panel += kPanel)
      for (std::size_t m = 0; m < kCount; ++m) sums[m].add_product(row[m * w.window + k], panel);
  }
  for (std::size_t m = 0; m < kCount; ++m) {
    if (width == kPanel) {
      sums[m].store(out + m * channels);
    } else {
      float all[kPanel];
      sums[m].store(all);
      std::copy_n(all, width, out + m * channels);
    }
  }
}

/// out (out_height, out_width, channels) from panels (channels / 16, window, 16).
void correlate(const Windows& w, const float* panels, std::size_t channels, float* out) {
  const std::size_t step = w.rows * w.row_values * kPanel;
  for (std::size_t c = 0; c < channels; c += kPanel, panels += step) {
    const std::size_t width = std::min(kPanel, channels - c);
    for (std::size_t y = 0; y < w.out_height; ++y) {
      const float* from = w.frame + y * w.window_row;
      float* to = out + y * w.out_width * channels + c;
      in_tiles(w.out_width, [&](auto count) HWY_ATTR {
        correlate_some<count>(w, panels, from, channels, width, to);
        from += count * w.window;
        to += count * channels;
      });
    }
  }
}

/// Row i of the windows, 16 values from k on: dw += sum over outputs of error * value, for kCount
/// output channels.
template <std::size_t kCount>
HWY_INLINE void gradient_some(const Windows& w, const float* HWY_RESTRICT from,
                              const float* HWY_RESTRICT error, std::size_t channels,
                              std::size_t width, float* HWY_RESTRICT dw, std::size_t weights) {
  Lanes sums[kCount];
  for (std::size_t y = 0; y < w.out_height; ++y, from += w.window_row) {
    const float* x = from;
    for (std::size_t i = 0; i < w.out_width; ++i, x += w.window, error += channels)
      for (std::size_t m = 0; m < kCount; ++m) sums[m].add_product(error[m], x);
  }
  for (std::size_t m = 0; m < kCount; ++m) {
    float all[kPanel];
    sums[m].store(all);
    float* const to = dw + m * weights;
    for (std::size_t i = 0; i < width; ++i) to[i] += all[i];
  }
}

/// dw (channels, rows, row_values) for the channels from `first` to `end`.
void add_gradient(const Windows& w, const float* error, std::size_t channels, std::size_t first,
                  std::size_t end, float* dw) {
  const std::size_t weights = w.rows * w.row_values;
  for (std::size_t i = 0; i < w.rows; ++i) {
    for (std::size_t k = 0; k < w.row_values; k += kPanel) {
      const std::size_t width = std::min(kPanel, w.row_values - k);
      const float* const from = w.frame + i * w.frame_row + k;
      std::size_t o = first;
      in_tiles(end - first, [&](auto count) HWY_ATTR {
        gradient_some<count>(w, from, error + o, channels, width,
                             dw + o * weights + i * w.row_values + k, weights);
        o += count;
      });
    }
  }
}

/// Sums of a tap for kCount output channels and as many input channels as the tag has lanes.
template <std::size_t kCount, class D>
HWY_INLINE void add_tap(D d, const int8::ConvolutionShape& s, const Reach& reach, const float* x,
                        const float* error, float* dw) {
  const auto inputs = static_cast<std::size_t>(s.in_channels);
  const auto outputs = static_cast<std::size_t>(s.out_channels);
  const std::size_t row_of_weights = static_cast<std::size_t>(s.kernel * s.kernel) * inputs;
  using V = hn::Vec<D>;
  V s0 = hn::Zero(d), s1 = s0, s2 = s0, s3 = s0, s4 = s0, s5 = s0, s6 = s0, s7 = s0;
  for (int row = reach.first_row; row < reach.last_row; ++row) {
    const int from_row = (row * s.stride + reach.row_shift) * s.width + reach.column_shift;
    for (int column = reach.first_column; column < reach.last_column; ++column) {
      const V in =
          hn::LoadU(d, x + static_cast<std::size_t>(from_row + column * s.stride) * inputs);
      const float* e = error + static_cast<std::size_t>(row * s.out_width() + column) * outputs;
      // Not fused, so that all processors round alike.
      const auto add = [&](V& sum, std::size_t o)
                           HWY_ATTR { sum = hn::Add(sum, hn::Mul(in, hn::Set(d, e[o]))); };
      add(s0, 0);
      if constexpr (kCount == kOutputs) {
        add(s1, 1);
        add(s2, 2);
        add(s3, 3);
        add(s4, 4);
        add(s5, 5);
        add(s6, 6);
        add(s7, 7);
      }
    }
  }
  const auto store = [&](V sum, std::size_t o) HWY_ATTR {
    float* const to = dw + o * row_of_weights;
    hn::StoreU(hn::Add(hn::LoadU(d, to), sum), d, to);
  };
  store(s0, 0);
  if constexpr (kCount == kOutputs) {
    store(s1, 1);
    store(s2, 2);
    store(s3, 3);
    store(s4, 4);
    store(s5, 5);
    store(s6, 6);
    store(s7, 7);
  }
}

/// One tap and all channels of input, for some of output.
template <std::size_t kCount>
HWY_INLINE void add_channels(const int8::ConvolutionShape& s, const Reach& reach, const float* x,
                             const float* error, float* dw) {
  const hn::ScalableTag<float> full;
  const hn::CappedTag<float, 1> single;
  const auto inputs = static_cast<std::size_t>(s.in_channels);
  const std::size_t lanes = hn::Lanes(full);
  std::size_t c = 0;
  for (; c + lanes <= inputs; c += lanes) add_tap<kCount>(full, s, reach, x + c, error, dw + c);
  for (; c < inputs; ++c) add_tap<kCount>(single, s, reach, x + c, error, dw + c);
}

void add_unfused_gradient(const int8::ConvolutionShape& s, const float* x, const float* error,
                          float* dw) {
  const auto inputs = static_cast<std::size_t>(s.in_channels);
  const auto outputs = static_cast<std::size_t>(s.out_channels);
  const auto taps = static_cast<std::size_t>(s.kernel * s.kernel);
  const int pad = s.kernel / 2;
  // The output places along an axis whose tap lies in the image.
  const auto first = [&](int shift) { return shift >= 0 ? 0 : (s.stride - 1 - shift) / s.stride; };
  const auto end = [&](int shift, int size, int places) {
    return shift >= size ? 0 : std::min(places, (size - 1 - shift) / s.stride + 1);
  };
  for (int i = 0; i < s.kernel; ++i) {
    for (int j = 0; j < s.kernel; ++j) {
      const Reach reach{.first_row = first(i - pad),
                        .last_row = end(i - pad, s.height, s.out_height()),
                        .first_column = first(j - pad),
                        .last_column = end(j - pad, s.width, s.out_width()),
                        .row_shift = i - pad,
                        .column_shift = j - pad};
      float* const tap = dw + static_cast<std::size_t>(i * s.kernel + j) * inputs;
      std::size_t o = 0;
      for (; o + kOutputs <= outputs; o += kOutputs)
        add_channels<kOutputs>(s, reach, x, error + o, tap + o * taps * inputs);
      for (; o < outputs; ++o) add_channels<1>(s, reach, x, error + o, tap + o * taps * inputs);
    }
  }
}

}  // namespace eqt::model::precision::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace eqt::model::precision {
namespace {

HWY_EXPORT(correlate);
HWY_EXPORT(add_gradient);
HWY_EXPORT(add_unfused_gradient);

constexpr std::size_t places(int a, int b, int c) {
  return static_cast<std::size_t>(a) * static_cast<std::size_t>(b) * static_cast<std::size_t>(c);
}

/// Images of (height, width, channels) with kernel / 2 zeros around them.
struct Framed {
  int height, width, channels, border;

  Framed(const int8::ConvolutionShape& shape, int of_channels)
      : height(shape.height), width(shape.width), channels(of_channels), border(shape.kernel / 2) {}

  std::size_t row() const { return places(1, width + 2 * border, channels); }
  /// The last panel of a row may read beyond it.
  std::size_t count() const {
    return static_cast<std::size_t>(height + 2 * border) * row() + kPanel;
  }

  /// Places the pixels of `x`, whose rows have `columns`, at every `step`th place.
  void fill(std::span<const float> x, int columns, int step, float* frame) const {
    std::fill_n(frame, count(), 0.0f);
    const auto pixel = static_cast<std::size_t>(channels);
    std::size_t at = 0;
    for (int y = 0; at < x.size(); y += step) {
      float* to =
          frame + static_cast<std::size_t>(y + border) * row() + places(1, border, channels);
      for (int i = 0; i < columns; ++i, at += pixel, to += places(1, step, channels))
        std::copy_n(&x[at], pixel, to);
    }
  }
};

std::size_t panel_values(int channels, std::size_t window) {
  return (static_cast<std::size_t>(channels) + kPanel - 1) / kPanel * kPanel * window;
}

Windows windows_of(const int8::ConvolutionShape& s, const Framed& framed, const float* frame,
                   int stride) {
  return {.frame = frame,
          .rows = static_cast<std::size_t>(s.kernel),
          .row_values = places(1, s.kernel, framed.channels),
          .frame_row = framed.row(),
          .window_row = static_cast<std::size_t>(stride) * framed.row(),
          .window = places(1, stride, framed.channels),
          .out_height = static_cast<std::size_t>((s.height - 1) / stride + 1),
          .out_width = static_cast<std::size_t>((s.width - 1) / stride + 1)};
}

DepthwiseShape depthwise_shape(const int8::ConvolutionShape& s) {
  const auto size = [](int number) { return static_cast<std::size_t>(number); };
  return {.height = size(s.height),
          .width = size(s.width),
          .channels = size(s.in_channels),
          .kernel = size(s.kernel),
          .stride = size(s.stride),
          .padding = size(s.kernel / 2)};
}

/// add_unfused_gradient() of filters of single channels.
void add_unfused_filter_gradients(const int8::ConvolutionShape& s, const float* x,
                                  const float* error, float* dw) {
  const std::size_t channels = places(1, 1, s.in_channels), taps = places(1, s.kernel, s.kernel);
  std::vector<float> sums(channels);
  for (int tap = 0; tap < s.kernel * s.kernel; ++tap) {
    const int top = tap / s.kernel - s.kernel / 2, left = tap % s.kernel - s.kernel / 2;
    std::ranges::fill(sums, 0.0f);
    for (int row = 0; row < s.out_height(); ++row) {
      const int y = row * s.stride + top;
      if (y < 0 || y >= s.height) continue;
      for (int column = 0; column < s.out_width(); ++column) {
        const int at = column * s.stride + left;
        if (at < 0 || at >= s.width) continue;
        const float* const in = x + places(1, y * s.width + at, s.in_channels);
        const float* const e = error + places(1, row * s.out_width() + column, s.in_channels);
        for (std::size_t c = 0; c < channels; ++c) sums[c] += in[c] * e[c];
      }
    }
    for (std::size_t c = 0; c < channels; ++c)
      dw[c * taps + static_cast<std::size_t>(tap)] += sums[c];
  }
}

}  // namespace

FloatConvolution::FloatConvolution(const int8::ConvolutionShape& shape)
    : shape_(shape), ones_(static_cast<std::size_t>(shape.out_channels), 1.0f) {
  if (shape.depthwise) {
    forward_.assign(shape.weight_count(), 0.0f);
    return;
  }
  const std::size_t taps = places(shape.kernel, shape.kernel, 1);
  forward_.assign(
      panel_values(shape.out_channels, taps * static_cast<std::size_t>(shape.in_channels)), 0.0f);
  backward_.assign(
      panel_values(shape.in_channels, taps * static_cast<std::size_t>(shape.out_channels)), 0.0f);
}

void FloatConvolution::set_weights(std::span<const float> weights, bool /*one_scale*/) {
  EQT_CHECK(weights.size() == shape_.weight_count(), "{} weights, expected {}", weights.size(),
            shape_.weight_count());
  const std::size_t taps = places(shape_.kernel, shape_.kernel, 1);
  const auto inputs = static_cast<std::size_t>(shape_.in_channels);
  const auto outputs = static_cast<std::size_t>(shape_.out_channels);
  if (shape_.depthwise) {
    for (std::size_t o = 0; o < outputs; ++o)
      for (std::size_t tap = 0; tap < taps; ++tap)
        forward_[tap * outputs + o] = weights[o * taps + tap];
    return;
  }
  // Of each panel, the 16 weights of a place of the window lie together.
  const auto place = [taps](std::size_t channel, std::size_t tap, std::size_t other,
                            std::size_t others) {
    return ((channel / kPanel * taps + tap) * others + other) * kPanel + channel % kPanel;
  };
  for (std::size_t o = 0, at = 0; o < outputs; ++o) {
    for (std::size_t tap = 0; tap < taps; ++tap) {
      for (std::size_t c = 0; c < inputs; ++c, ++at) {
        forward_[place(o, tap, c, inputs)] = weights[at];
        backward_[place(c, taps - 1 - tap, o, outputs)] = weights[at];
      }
    }
  }
}

std::size_t FloatConvolution::scratch_bytes(int /*samples*/) const {
  if (shape_.depthwise) return (forward_.size() * sizeof(float) + 63) / 64 * 64;
  const std::size_t most = std::max(Framed(shape_, shape_.in_channels).count(),
                                    Framed(shape_, shape_.out_channels).count());
  return (most * sizeof(float) + 63) / 64 * 64;
}

void FloatConvolution::forward(std::span<const float> x, int /*zero_point*/,
                               std::span<const float> scales, std::span<float> out,
                               std::span<std::byte> scratch) const {
  const std::size_t in = shape_.in_count(), result = shape_.out_count();
  EQT_CHECK(x.size() == scales.size() * in && out.size() == scales.size() * result &&
                scratch.size() >= scratch_bytes(),
            "{} inputs, {} outputs of {} samples", x.size(), out.size(), scales.size());
  if (shape_.depthwise) {
    for (std::size_t n = 0; n < scales.size(); ++n)
      depthwise(x.subspan(n * in, in), forward_, depthwise_shape(shape_),
                out.subspan(n * result, result));
    return;
  }
  const Framed framed(shape_, shape_.in_channels);
  auto* const frame = reinterpret_cast<float*>(scratch.data());
  const Windows windows = windows_of(shape_, framed, frame, shape_.stride);
  for (std::size_t n = 0; n < scales.size(); ++n) {
    framed.fill(x.subspan(n * in, in), shape_.width, 1, frame);
    HWY_DYNAMIC_DISPATCH(correlate)
    (windows, forward_.data(), ones_.size(), out.data() + n * result);
  }
}

/// The errors, with zeros between them where the convolution has a stride, framed, and correlated
/// with the weights turned by half a turn.
void FloatConvolution::backward_input(std::span<const float> error, std::span<const float> scales,
                                      std::span<float> dx, std::span<std::byte> scratch) const {
  const std::size_t in = shape_.in_count(), result = shape_.out_count();
  EQT_CHECK(dx.size() == scales.size() * in && error.size() == scales.size() * result &&
                scratch.size() >= scratch_bytes(),
            "{} inputs, {} errors of {} samples", dx.size(), error.size(), scales.size());
  if (shape_.depthwise) {
    for (std::size_t n = 0; n < scales.size(); ++n)
      depthwise_input_gradient(error.subspan(n * result, result), forward_, depthwise_shape(shape_),
                               dx.subspan(n * in, in));
    return;
  }
  const Framed framed(shape_, shape_.out_channels);
  auto* const frame = reinterpret_cast<float*>(scratch.data());
  const Windows windows = windows_of(shape_, framed, frame, 1);
  for (std::size_t n = 0; n < scales.size(); ++n) {
    framed.fill(error.subspan(n * result, result), shape_.out_width(), shape_.stride, frame);
    HWY_DYNAMIC_DISPATCH(correlate)
    (windows, backward_.data(), static_cast<std::size_t>(shape_.in_channels), dx.data() + n * in);
  }
}

void FloatConvolution::add_weight_gradient(std::span<const float> x, int /*zero_point*/,
                                           std::span<const float> scales,
                                           std::span<const float> error,
                                           std::span<const float> error_scales, std::span<float> dw,
                                           std::span<std::byte> scratch,
                                           int8::OutputPart part) const {
  const std::size_t in = shape_.in_count(), result = shape_.out_count(), outputs = ones_.size();
  EQT_CHECK(x.size() == scales.size() * in && error.size() == scales.size() * result &&
                error_scales.size() == scales.size() && dw.size() == shape_.weight_count() &&
                scratch.size() >= scratch_bytes() && part.index < part.count,
            "{} inputs, {} errors of {} samples, part {} of {}", x.size(), error.size(),
            scales.size(), part.index, part.count);
  if (shape_.depthwise) {
    const std::span filters(reinterpret_cast<float*>(scratch.data()), forward_.size());
    for (std::size_t n = 0; n < scales.size(); ++n)
      add_filter_gradients(x.subspan(n * in, in), error.subspan(n * result, result), dw, filters,
                           part);
    return;
  }
  const Framed framed(shape_, shape_.in_channels);
  auto* const frame = reinterpret_cast<float*>(scratch.data());
  const Windows windows = windows_of(shape_, framed, frame, shape_.stride);
  for (std::size_t n = 0; n < scales.size(); ++n) {
    framed.fill(x.subspan(n * in, in), shape_.width, 1, frame);
    HWY_DYNAMIC_DISPATCH(add_gradient)
    (windows, error.data() + n * result, outputs, outputs * part.index / part.count,
     outputs * (part.index + 1) / part.count, dw.data());
  }
}

/// @param filters  (taps, C), for a sample's gradient
void FloatConvolution::add_filter_gradients(std::span<const float> x, std::span<const float> error,
                                            std::span<float> dw, std::span<float> filters,
                                            int8::OutputPart part) const {
  depthwise_filter_gradient(error, x, depthwise_shape(shape_), filters);
  const std::size_t outputs = ones_.size(), taps = shape_.row_count();
  for (std::size_t o = outputs * part.index / part.count;
       o < outputs * (part.index + 1) / part.count; ++o)
    for (std::size_t tap = 0; tap < taps; ++tap) dw[o * taps + tap] += filters[tap * outputs + o];
}

void add_float_gradient(const int8::ConvolutionShape& shape, std::span<const float> x,
                        std::span<const float> error, std::span<float> dw) {
  EQT_CHECK(x.size() == shape.in_count() && error.size() == shape.out_count() &&
                dw.size() == shape.weight_count(),
            "{} inputs, {} errors, {} weights", x.size(), error.size(), dw.size());
  if (shape.depthwise)
    return add_unfused_filter_gradients(shape, x.data(), error.data(), dw.data());
  HWY_DYNAMIC_DISPATCH(add_unfused_gradient)(shape, x.data(), error.data(), dw.data());
}

}  // namespace eqt::model::precision
#endif  // HWY_ONCE
