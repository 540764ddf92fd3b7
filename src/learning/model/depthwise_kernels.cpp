// SPDX-License-Identifier: Apache-2.0
#include "model/depthwise_kernels.hpp"

#include <algorithm>
#include <array>

#include "core/error.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "model/depthwise_kernels.cpp"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace eqt::model::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

constexpr std::size_t kMostTaps = kWidestFilter * kWidestFilter;

/// The products whose sum is a pixel: vectors of channels at `from`, by those at `filter`.
struct Taps {
  std::array<const float*, kMostTaps> from;
  std::array<const float*, kMostTaps> filter;
  std::size_t count = 0;

  void add(const float* image, const float* weights) {
    from[count] = image;
    filter[count++] = weights;
  }
};

/// Two sums at once, since one alone waits for each of its additions.
template <class D>
HWY_INLINE void sum_pair(D d, const Taps& taps, std::size_t c, float* out) {
  const std::size_t next = c + hn::Lanes(d);
  auto first = hn::Zero(d), second = hn::Zero(d);
  for (std::size_t t = 0; t < taps.count; ++t) {
    first = hn::MulAdd(hn::LoadU(d, taps.from[t] + c), hn::LoadU(d, taps.filter[t] + c), first);
    second =
        hn::MulAdd(hn::LoadU(d, taps.from[t] + next), hn::LoadU(d, taps.filter[t] + next), second);
  }
  hn::StoreU(first, d, out + c);
  hn::StoreU(second, d, out + next);
}

template <class D>
HWY_INLINE void sum_single(D d, const Taps& taps, std::size_t c, float* out) {
  auto sum = hn::Zero(d);
  for (std::size_t t = 0; t < taps.count; ++t)
    sum = hn::MulAdd(hn::LoadU(d, taps.from[t] + c), hn::LoadU(d, taps.filter[t] + c), sum);
  hn::StoreU(sum, d, out + c);
}

HWY_INLINE void sum_taps(const Taps& taps, std::size_t channels, float* out) {
  const hn::ScalableTag<float> full;
  const hn::CappedTag<float, 8> some;
  const hn::CappedTag<float, 1> single;
  const std::size_t lanes = hn::Lanes(full), few = hn::Lanes(some);
  std::size_t c = 0;
  for (; c + 2 * lanes <= channels; c += 2 * lanes) sum_pair(full, taps, c, out);
  for (; c + few <= channels; c += few) sum_single(some, taps, c, out);
  for (; c < channels; ++c) sum_single(single, taps, c, out);
}

void Depthwise(std::span<const float> x, std::span<const float> filters,
               const DepthwiseShape& shape, std::span<float> y) {
  const std::size_t channels = shape.channels, k = shape.kernel;
  float* out = y.data();
  for (std::size_t oy = 0; oy < shape.out_height(); ++oy) {
    for (std::size_t ox = 0; ox < shape.out_width(); ++ox, out += channels) {
      Taps taps;
      for (std::size_t ky = 0; ky < k; ++ky) {
        const std::size_t iy = oy * shape.stride + ky - shape.padding;  // wraps above the image
        if (iy >= shape.height) continue;
        for (std::size_t kx = 0; kx < k; ++kx) {
          const std::size_t ix = ox * shape.stride + kx - shape.padding;
          if (ix >= shape.width) continue;
          taps.add(&x[(iy * shape.width + ix) * channels], &filters[(ky * k + kx) * channels]);
        }
      }
      sum_taps(taps, channels, out);
    }
  }
}

void DepthwiseInputGradient(std::span<const float> g, std::span<const float> filters,
                            const DepthwiseShape& shape, std::span<float> dx) {
  const std::size_t channels = shape.channels, k = shape.kernel;
  const std::size_t rows = shape.out_height(), columns = shape.out_width();
  /// The output's place to which a filter's place brings an input's; beyond all: none.
  const auto place_of = [&](std::size_t in, std::size_t filter) {
    const std::size_t shifted = in + shape.padding;
    if (shifted < filter || (shifted - filter) % shape.stride != 0) return rows + columns;
    return (shifted - filter) / shape.stride;
  };
  float* out = dx.data();
  for (std::size_t iy = 0; iy < shape.height; ++iy) {
    for (std::size_t ix = 0; ix < shape.width; ++ix, out += channels) {
      Taps taps;
      for (std::size_t ky = 0; ky < k; ++ky) {
        const std::size_t oy = place_of(iy, ky);
        if (oy >= rows) continue;
        for (std::size_t kx = 0; kx < k; ++kx) {
          const std::size_t ox = place_of(ix, kx);
          if (ox >= columns) continue;
          taps.add(&g[(oy * columns + ox) * channels], &filters[(ky * k + kx) * channels]);
        }
      }
      sum_taps(taps, channels, out);
    }
  }
}

/// A row of the output, and the row of the input under a row of the filter.
struct RowPair {
  const float* g;
  const float* x;
  float* dw;  // (kernel, channels), added to
};

/// Adds the products of a row for a vector of channels and `Count` places of the filter's row from
/// `kx` on: up to three, so that a gradient is loaded once for all of them. Vectors of some targets
/// cannot stand in arrays.
template <std::size_t Count, class D>
HWY_INLINE void add_places(D d, const RowPair& rows, const DepthwiseShape& shape, std::size_t kx,
                           std::size_t c) {
  const std::size_t channels = shape.channels, columns = shape.out_width();
  float* const dw = rows.dw + kx * channels + c;
  auto sum0 = hn::LoadU(d, dw);
  auto sum1 = Count > 1 ? hn::LoadU(d, dw + channels) : sum0;
  auto sum2 = Count > 2 ? hn::LoadU(d, dw + 2 * channels) : sum0;
  for (std::size_t ox = 0; ox < columns; ++ox) {
    const auto g = hn::LoadU(d, rows.g + ox * channels + c);
    const std::size_t ix = ox * shape.stride + kx - shape.padding;  // wraps left of the image
    const auto is_inside = [&](std::size_t i) { return ix + i < shape.width; };
    const auto x = [&](std::size_t i)
                       HWY_ATTR { return hn::LoadU(d, rows.x + (ix + i) * channels + c); };
    if (is_inside(0)) sum0 = hn::MulAdd(g, x(0), sum0);
    if (Count > 1 && is_inside(1)) sum1 = hn::MulAdd(g, x(1), sum1);
    if (Count > 2 && is_inside(2)) sum2 = hn::MulAdd(g, x(2), sum2);
  }
  hn::StoreU(sum0, d, dw);
  if (Count > 1) hn::StoreU(sum1, d, dw + channels);
  if (Count > 2) hn::StoreU(sum2, d, dw + 2 * channels);
}

template <class D>
HWY_INLINE void add_row(D d, const RowPair& rows, const DepthwiseShape& shape, std::size_t c) {
  std::size_t kx = 0;
  for (; kx + 3 <= shape.kernel; kx += 3) add_places<3>(d, rows, shape, kx, c);
  if (shape.kernel - kx == 2) add_places<2>(d, rows, shape, kx, c);
  if (shape.kernel - kx == 1) add_places<1>(d, rows, shape, kx, c);
}

void DepthwiseFilterGradient(std::span<const float> g, std::span<const float> x,
                             const DepthwiseShape& shape, std::span<float> dw) {
  const hn::ScalableTag<float> full;
  const hn::CappedTag<float, 8> some;
  const hn::CappedTag<float, 1> single;
  const std::size_t lanes = hn::Lanes(full), few = hn::Lanes(some), channels = shape.channels;
  std::ranges::fill(dw, 0.0f);
  for (std::size_t oy = 0; oy < shape.out_height(); ++oy) {
    for (std::size_t ky = 0; ky < shape.kernel; ++ky) {
      const std::size_t iy = oy * shape.stride + ky - shape.padding;
      if (iy >= shape.height) continue;
      const RowPair rows{&g[oy * shape.out_width() * channels], &x[iy * shape.width * channels],
                         &dw[ky * shape.kernel * channels]};
      std::size_t c = 0;
      for (; c + lanes <= channels; c += lanes) add_row(full, rows, shape, c);
      for (; c + few <= channels; c += few) add_row(some, rows, shape, c);
      for (; c < channels; ++c) add_row(single, rows, shape, c);
    }
  }
}

}  // namespace eqt::model::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace eqt::model {
namespace {

HWY_EXPORT(Depthwise);
HWY_EXPORT(DepthwiseInputGradient);
HWY_EXPORT(DepthwiseFilterGradient);

void check_sizes(std::size_t in, std::size_t out, std::size_t filters,
                 const DepthwiseShape& shape) {
  const std::size_t k = shape.kernel;
  EQT_CHECK(k >= 1 && k <= kWidestFilter, "a filter of {} pixels", k);
  EQT_DCHECK(in == shape.in_count() && out == shape.out_count() && filters == shape.filter_count(),
             "{} values to {} by {}", in, out, filters);
}

}  // namespace

void depthwise(std::span<const float> x, std::span<const float> filters,
               const DepthwiseShape& shape, std::span<float> y) {
  check_sizes(x.size(), y.size(), filters.size(), shape);
  HWY_DYNAMIC_DISPATCH(Depthwise)(x, filters, shape, y);
}

void depthwise_input_gradient(std::span<const float> g, std::span<const float> filters,
                              const DepthwiseShape& shape, std::span<float> dx) {
  check_sizes(dx.size(), g.size(), filters.size(), shape);
  HWY_DYNAMIC_DISPATCH(DepthwiseInputGradient)(g, filters, shape, dx);
}

void depthwise_filter_gradient(std::span<const float> g, std::span<const float> x,
                               const DepthwiseShape& shape, std::span<float> dw) {
  check_sizes(x.size(), g.size(), dw.size(), shape);
  HWY_DYNAMIC_DISPATCH(DepthwiseFilterGradient)(g, x, shape, dw);
}

}  // namespace eqt::model
#endif
