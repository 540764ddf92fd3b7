// SPDX-License-Identifier: Apache-2.0
#include "model/own/float_gradient.hpp"

#include <algorithm>

#include "core/error.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "model/own/float_gradient.cpp"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

#ifndef EQT_MODEL_PRECISION_FLOAT_GRADIENT_ONCE
#define EQT_MODEL_PRECISION_FLOAT_GRADIENT_ONCE
namespace eqt::model::precision {

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

void add_gradient(const int8::ConvolutionShape& s, const float* x, const float* error, float* dw) {
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

HWY_EXPORT(add_gradient);

void add_float_gradient(const int8::ConvolutionShape& shape, std::span<const float> x,
                        std::span<const float> error, std::span<float> dw) {
  EQT_CHECK(x.size() == shape.in_count() && error.size() == shape.out_count() &&
                dw.size() == shape.weight_count(),
            "{} inputs, {} errors, {} weights", x.size(), error.size(), dw.size());
  HWY_DYNAMIC_DISPATCH(add_gradient)(shape, x.data(), error.data(), dw.data());
}

}  // namespace eqt::model::precision
#endif  // HWY_ONCE
