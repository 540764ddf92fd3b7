// SPDX-License-Identifier: Apache-2.0
// Plain loops over the channels of a pixel, compiled once for each instruction set, which the
// compiler makes vectors of: no operation depends on another lane.
#include "model/own/passes.hpp"

#include <algorithm>

#include "core/error.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "model/own/passes.cpp"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

#include "model/own/channel_rows-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace eqt::model::precision::HWY_NAMESPACE {

void add_bias(const float* HWY_RESTRICT bias, std::size_t channels, float* HWY_RESTRICT x,
              std::size_t count) {
  for (std::size_t i = 0; i < count; i += channels)
    for (std::size_t c = 0; c < channels; ++c) x[i + c] += bias[c];
}

/// Adds `pixels` rows of `tile` channels up, four interleaved sums each, so that additions overlap.
template <bool kSquares>
HWY_INLINE void float_sums(const float* HWY_RESTRICT x, std::size_t channels, std::size_t pixels,
                           const float* HWY_RESTRICT mean, std::size_t tile,
                           double* HWY_RESTRICT out) {
  constexpr std::size_t kRows = 4;
  float sums[kRows][kTile] = {};
  for (std::size_t p = 0; p < pixels; ++p) {
    float* HWY_RESTRICT row = sums[p % kRows];
    for (std::size_t c = 0; c < tile; ++c) {
      const float v = kSquares ? x[p * channels + c] - mean[c] : x[p * channels + c];
      row[c] += kSquares ? v * v : v;
    }
  }
  for (std::size_t c = 0; c < tile; ++c)
    out[c] += static_cast<double>((sums[0][c] + sums[1][c]) + (sums[2][c] + sums[3][c]));
}

template <bool kSquares>
HWY_INLINE void all_float_sums(const float* x, std::size_t count, const float* mean,
                               std::size_t channels, double* out) {
  std::fill_n(out, channels, 0.0);
  for_each_tile(count, channels, kFloatSum,
                [&](std::size_t at, std::size_t c, std::size_t pixels, auto tile) HWY_ATTR {
                  float_sums<kSquares>(x + at, channels, pixels, mean + c, tile, out + c);
                });
}

void channel_sums(const float* x, std::size_t count, std::size_t channels, double* out) {
  all_float_sums<false>(x, count, x, channels, out);
}
void channel_squares(const float* x, std::size_t count, const float* mean, std::size_t channels,
                     double* out) {
  all_float_sums<true>(x, count, mean, channels, out);
}

template <Output kOutput, typename T>
HWY_INLINE void affine_row(const T* HWY_RESTRICT q, const float* HWY_RESTRICT scale,
                           const float* HWY_RESTRICT shift, std::size_t count,
                           float* HWY_RESTRICT out) {
  for (std::size_t c = 0; c < count; ++c) {
    const float v = static_cast<float>(q[c]) * scale[c] + shift[c];
    if constexpr (kOutput == Output::rectified) {
      out[c] = v > 0 ? v : 0.0f;
    } else {
      out[c] = kOutput == Output::added ? out[c] + v : v;
    }
  }
}

template <Output kOutput, typename T>
HWY_INLINE void affine_rows(const T* q, const float* scale, const float* shift,
                            std::size_t channels, float* out, std::size_t count) {
  const WideRow row(channels);
  float scales[WideRow::kWide], shifts[WideRow::kWide];
  scale = row.spread(scale, scales);
  shift = row.spread(shift, shifts);
  for (std::size_t i = 0; i < count; i += row.width())
    affine_row<kOutput>(q + i, scale, shift, std::min(row.width(), count - i), out + i);
}

template <typename T>
HWY_INLINE void affine_as(const T* q, const float* scale, const float* shift, std::size_t channels,
                          Output output, float* out, std::size_t count) {
  if (output == Output::plain) affine_rows<Output::plain>(q, scale, shift, channels, out, count);
  if (output == Output::added) affine_rows<Output::added>(q, scale, shift, channels, out, count);
  if (output == Output::rectified)
    affine_rows<Output::rectified>(q, scale, shift, channels, out, count);
}

void affine(const std::int8_t* q, const float* scale, const float* shift, std::size_t channels,
            Output output, float* out, std::size_t count) {
  affine_as(q, scale, shift, channels, output, out, count);
}
void affine_floats(const float* q, const float* scale, const float* shift, std::size_t channels,
                   Output output, float* out, std::size_t count) {
  affine_as(q, scale, shift, channels, output, out, count);
}

template <typename T>
HWY_INLINE void gate_row(const T* HWY_RESTRICT q, const float* HWY_RESTRICT scale,
                         const float* HWY_RESTRICT shift, std::size_t count, T* HWY_RESTRICT g) {
  for (std::size_t c = 0; c < count; ++c) {
    const float before = static_cast<float>(q[c]) * scale[c] + shift[c];
    g[c] = before > 0 ? g[c] : static_cast<T>(0);
  }
}

template <typename T>
HWY_INLINE void gate_affine_as(const T* q, const float* scale, const float* shift,
                               std::size_t channels, T* g, std::size_t count) {
  const WideRow row(channels);
  float scales[WideRow::kWide], shifts[WideRow::kWide];
  scale = row.spread(scale, scales);
  shift = row.spread(shift, shifts);
  for (std::size_t i = 0; i < count; i += row.width())
    gate_row(q + i, scale, shift, std::min(row.width(), count - i), g + i);
}

void gate_affine(const std::int8_t* q, const float* scale, const float* shift, std::size_t channels,
                 std::int8_t* g, std::size_t count) {
  gate_affine_as(q, scale, shift, channels, g, count);
}
void gate_affine_floats(const float* q, const float* scale, const float* shift,
                        std::size_t channels, float* g, std::size_t count) {
  gate_affine_as(q, scale, shift, channels, g, count);
}

void add_scaled_floats(const float* HWY_RESTRICT q, float scale, float* HWY_RESTRICT out,
                       std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) out[i] += q[i] * scale;
}

void add_scaled(const std::int8_t* HWY_RESTRICT q, int zero_point, float scale,
                float* HWY_RESTRICT out, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) out[i] += static_cast<float>(q[i] - zero_point) * scale;
}

void add(const float* HWY_RESTRICT x, float* HWY_RESTRICT out, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) out[i] += x[i];
}

void rectify(float* HWY_RESTRICT x, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) x[i] = x[i] > 0 ? x[i] : 0.0f;
}

void gate(const float* HWY_RESTRICT before, std::int8_t* HWY_RESTRICT g, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) g[i] = before[i] > 0 ? g[i] : static_cast<std::int8_t>(0);
}

void gate_floats(const float* HWY_RESTRICT before, float* HWY_RESTRICT g, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) g[i] = before[i] > 0 ? g[i] : 0.0f;
}

/// Sums of `tile` channels of at most kFloatSum pixels, in the order of float_sums().
HWY_INLINE void float_error_sums(const float* HWY_RESTRICT g, const float* HWY_RESTRICT x,
                                 const float* HWY_RESTRICT centre, std::size_t channels,
                                 std::size_t pixels, std::size_t tile, double* HWY_RESTRICT sums,
                                 double* HWY_RESTRICT products) {
  constexpr std::size_t kRows = 4;
  float s[kRows][kTile] = {}, p[kRows][kTile] = {};
  for (std::size_t i = 0; i < pixels; ++i) {
    float *HWY_RESTRICT s_row = s[i % kRows], *HWY_RESTRICT p_row = p[i % kRows];
    for (std::size_t c = 0; c < tile; ++c) {
      const float error = g[i * channels + c];
      s_row[c] += error;
      p_row[c] += error * (x[i * channels + c] - centre[c]);
    }
  }
  for (std::size_t c = 0; c < tile; ++c) {
    sums[c] += static_cast<double>((s[0][c] + s[1][c]) + (s[2][c] + s[3][c]));
    products[c] += static_cast<double>((p[0][c] + p[1][c]) + (p[2][c] + p[3][c]));
  }
}

void error_sums_floats(const float* g, const float* x, const float* centre, std::size_t count,
                       std::size_t channels, double* sums, double* products) {
  std::fill_n(sums, channels, 0.0);
  std::fill_n(products, channels, 0.0);
  for_each_tile(count, channels, kFloatSum,
                [&](std::size_t at, std::size_t c, std::size_t pixels, auto tile) HWY_ATTR {
                  float_error_sums(g + at, x + at, centre + c, channels, pixels, tile, sums + c,
                                   products + c);
                });
}

/// Sums of `tile` channels. Those of g stay in 16 bits for 256 pixels, products for two.
HWY_INLINE void integer_sums(const std::int8_t* HWY_RESTRICT g, const std::int8_t* HWY_RESTRICT x,
                             std::size_t channels, std::size_t pixels, std::size_t tile,
                             std::int64_t* HWY_RESTRICT sums, std::int64_t* HWY_RESTRICT products) {
  constexpr std::size_t kShort = 256;  // 256 * 127 < 2^15
  std::int32_t s[kTile] = {}, p[kTile] = {};
  for (std::size_t first = 0; first < pixels; first += kShort) {
    const std::size_t end = std::min(pixels, first + kShort);
    std::int16_t part[kTile] = {};
    std::size_t i = first;
    for (; i + 2 <= end; i += 2) {
      for (std::size_t c = 0; c < tile; ++c) {
        const std::int16_t a = g[i * channels + c], b = g[(i + 1) * channels + c];
        const std::int16_t u = x[i * channels + c], v = x[(i + 1) * channels + c];
        part[c] = static_cast<std::int16_t>(part[c] + a + b);
        p[c] += static_cast<std::int16_t>(a * u + b * v);
      }
    }
    for (; i < end; ++i) {
      for (std::size_t c = 0; c < tile; ++c) {
        const std::int32_t a = g[i * channels + c];
        part[c] = static_cast<std::int16_t>(part[c] + a);
        p[c] += a * x[i * channels + c];
      }
    }
    for (std::size_t c = 0; c < tile; ++c) s[c] += part[c];
  }
  for (std::size_t c = 0; c < tile; ++c) {
    sums[c] += s[c];
    products[c] += p[c];
  }
}

void error_sums(const std::int8_t* g, const std::int8_t* x, std::size_t count, std::size_t channels,
                std::int64_t* sums, std::int64_t* products) {
  constexpr std::size_t kIntegerSum = 65536;  // 65536 * 127^2 < 2^31
  std::fill_n(sums, channels, 0);
  std::fill_n(products, channels, 0);
  for_each_tile(count, channels, kIntegerSum,
                [&](std::size_t at, std::size_t c, std::size_t pixels, auto tile) HWY_ATTR {
                  integer_sums(g + at, x + at, channels, pixels, tile, sums + c, products + c);
                });
}

template <typename T>
HWY_INLINE void error_row(const T* HWY_RESTRICT g, const T* HWY_RESTRICT x,
                          const float* HWY_RESTRICT scale, const float* HWY_RESTRICT slope,
                          const float* HWY_RESTRICT offset, std::size_t count,
                          float* HWY_RESTRICT error) {
  for (std::size_t c = 0; c < count; ++c) {
    const float through = static_cast<float>(x[c]) * slope[c] + offset[c];
    error[c] = static_cast<float>(g[c]) * scale[c] - through;
  }
}

template <typename T>
HWY_INLINE void norm_error_as(const T* g, const T* x, const float* scale, const float* slope,
                              const float* offset, std::size_t channels, float* error,
                              std::size_t count) {
  const WideRow row(channels);
  float scales[WideRow::kWide], slopes[WideRow::kWide], offsets[WideRow::kWide];
  scale = row.spread(scale, scales);
  slope = row.spread(slope, slopes);
  offset = row.spread(offset, offsets);
  for (std::size_t i = 0; i < count; i += row.width())
    error_row(g + i, x + i, scale, slope, offset, std::min(row.width(), count - i), error + i);
}

void norm_error(const std::int8_t* g, const std::int8_t* x, const float* scale, const float* slope,
                const float* offset, std::size_t channels, float* error, std::size_t count) {
  norm_error_as(g, x, scale, slope, offset, channels, error, count);
}
void norm_error_floats(const float* g, const float* x, const float* scale, const float* slope,
                       const float* offset, std::size_t channels, float* error, std::size_t count) {
  norm_error_as(g, x, scale, slope, offset, channels, error, count);
}

}  // namespace eqt::model::precision::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace eqt::model::precision {
namespace {

HWY_EXPORT(add_bias);
HWY_EXPORT(channel_sums);
HWY_EXPORT(channel_squares);
HWY_EXPORT(affine);
HWY_EXPORT(affine_floats);
HWY_EXPORT(add_scaled);
HWY_EXPORT(add_scaled_floats);
HWY_EXPORT(add);
HWY_EXPORT(rectify);
HWY_EXPORT(gate);
HWY_EXPORT(gate_floats);
HWY_EXPORT(gate_affine);
HWY_EXPORT(gate_affine_floats);
HWY_EXPORT(error_sums);
HWY_EXPORT(error_sums_floats);
HWY_EXPORT(norm_error);
HWY_EXPORT(norm_error_floats);

}  // namespace

void add_bias(Floats bias, std::span<float> x) {
  check_rows(x.size(), bias.size(), x.size());
  HWY_DYNAMIC_DISPATCH(add_bias)(bias.data(), bias.size(), x.data(), x.size());
}

void channel_sums(Floats x, std::span<double> sums) {
  check_rows(x.size(), sums.size(), x.size());
  HWY_DYNAMIC_DISPATCH(channel_sums)(x.data(), x.size(), sums.size(), sums.data());
}

void channel_squares(Floats x, Floats mean, std::span<double> squares) {
  check_rows(x.size(), mean.size(), x.size());
  HWY_DYNAMIC_DISPATCH(channel_squares)
  (x.data(), x.size(), mean.data(), mean.size(), squares.data());
}

void affine(Bytes q, Floats scale, Floats shift, Output output, std::span<float> out) {
  check_rows(q.size(), scale.size(), out.size());
  HWY_DYNAMIC_DISPATCH(affine)
  (q.data(), scale.data(), shift.data(), scale.size(), output, out.data(), out.size());
}

void affine(Floats q, Floats scale, Floats shift, Output output, std::span<float> out) {
  check_rows(q.size(), scale.size(), out.size());
  HWY_DYNAMIC_DISPATCH(affine_floats)
  (q.data(), scale.data(), shift.data(), scale.size(), output, out.data(), out.size());
}

void add_scaled(Floats q, int zero_point, float scale, std::span<float> out) {
  check_rows(q.size(), 1, out.size());
  EQT_CHECK(zero_point == 0, "floats with the zero point {}", zero_point);
  HWY_DYNAMIC_DISPATCH(add_scaled_floats)(q.data(), scale, out.data(), out.size());
}

void add_scaled(Bytes q, int zero_point, float scale, std::span<float> out) {
  check_rows(q.size(), 1, out.size());
  HWY_DYNAMIC_DISPATCH(add_scaled)(q.data(), zero_point, scale, out.data(), out.size());
}

void add(Floats x, std::span<float> out) {
  check_rows(x.size(), 1, out.size());
  HWY_DYNAMIC_DISPATCH(add)(x.data(), out.data(), out.size());
}

void rectify(std::span<float> x) { HWY_DYNAMIC_DISPATCH(rectify)(x.data(), x.size()); }

void gate(Floats before, std::span<std::int8_t> g) {
  check_rows(before.size(), 1, g.size());
  HWY_DYNAMIC_DISPATCH(gate)(before.data(), g.data(), g.size());
}

void gate(Floats before, std::span<float> g) {
  check_rows(before.size(), 1, g.size());
  HWY_DYNAMIC_DISPATCH(gate_floats)(before.data(), g.data(), g.size());
}

void gate_affine(Floats q, Floats scale, Floats shift, std::span<float> g) {
  check_rows(q.size(), scale.size(), g.size());
  HWY_DYNAMIC_DISPATCH(gate_affine_floats)
  (q.data(), scale.data(), shift.data(), scale.size(), g.data(), g.size());
}

void gate_affine(Bytes q, Floats scale, Floats shift, std::span<std::int8_t> g) {
  check_rows(q.size(), scale.size(), g.size());
  HWY_DYNAMIC_DISPATCH(gate_affine)
  (q.data(), scale.data(), shift.data(), scale.size(), g.data(), g.size());
}

void error_sums(Bytes g, Bytes x, std::span<std::int64_t> sums, std::span<std::int64_t> products) {
  check_rows(g.size(), sums.size(), x.size());
  HWY_DYNAMIC_DISPATCH(error_sums)
  (g.data(), x.data(), g.size(), sums.size(), sums.data(), products.data());
}

void error_sums(Floats g, Floats x, Floats centre, std::span<double> sums,
                std::span<double> products) {
  check_rows(g.size(), sums.size(), x.size());
  HWY_DYNAMIC_DISPATCH(error_sums_floats)
  (g.data(), x.data(), centre.data(), g.size(), sums.size(), sums.data(), products.data());
}

void norm_error(Floats g, Floats x, Floats scale, Floats slope, Floats offset,
                std::span<float> error) {
  check_rows(g.size(), scale.size(), error.size());
  HWY_DYNAMIC_DISPATCH(norm_error_floats)
  (g.data(), x.data(), scale.data(), slope.data(), offset.data(), scale.size(), error.data(),
   error.size());
}

void norm_error(Bytes g, Bytes x, Floats scale, Floats slope, Floats offset,
                std::span<float> error) {
  check_rows(g.size(), scale.size(), error.size());
  HWY_DYNAMIC_DISPATCH(norm_error)
  (g.data(), x.data(), scale.data(), slope.data(), offset.data(), scale.size(), error.data(),
   error.size());
}

}  // namespace eqt::model::precision
#endif  // HWY_ONCE
