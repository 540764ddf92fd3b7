// SPDX-License-Identifier: Apache-2.0
// Plain loops, as in passes.cpp.
#include "model/own/gated_passes.hpp"

#include <algorithm>
#include <bit>

#include "core/error.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "model/own/gated_passes.cpp"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

#include "model/own/channel_rows-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace eqt::model::precision::HWY_NAMESPACE {

/// exp(x) for |x| <= 80: 2^k times a Taylor polynomial of the rest, relative error below 2e-7.
HWY_INLINE float exponential(float x) {
  constexpr float kRound = 12582912.0f;  // 1.5 * 2^23: a sum with it has no fraction
  constexpr float kLog2E = 1.44269504f;
  constexpr float kLn2High = 0.693359375f, kLn2Low = -2.12194440e-4f;  // k * kLn2High is exact
  const float k = (x * kLog2E + kRound) - kRound;
  const float r = (x - k * kLn2High) - k * kLn2Low;
  float p = 1.0f / 5040;
  p = p * r + 1.0f / 720;
  p = p * r + 1.0f / 120;
  p = p * r + 1.0f / 24;
  p = p * r + 1.0f / 6;
  p = p * r + 0.5f;
  p = p * r + 1.0f;
  p = p * r + 1.0f;
  return p * std::bit_cast<float>((static_cast<std::int32_t>(k) + 127) << 23);
}

struct Gate {
  float h, slope;  // sigmoid of z and its derivative
};

template <Sigmoid kSigmoid>
HWY_INLINE Gate gate_of(float z) {
  if constexpr (kSigmoid == Sigmoid::exact) {
    const float bounded = z < -80.0f ? -80.0f : (z > 80.0f ? 80.0f : z);
    const float e = exponential(-bounded), h = 1.0f / (1.0f + e);
    return {h, h * h * e};
  } else {
    const float line = z * (1.0f / 6) + 0.5f;
    const float h = line < 0.0f ? 0.0f : (line > 1.0f ? 1.0f : line);
    const bool inside = z > -3.0f && z < 3.0f;
    return {h, inside ? 1.0f / 6 : 0.0f};
  }
}

template <Sigmoid kSigmoid, Output kOutput, typename T>
HWY_INLINE void gated_row(const T* HWY_RESTRICT q, float unit, const float* HWY_RESTRICT v,
                          const float* HWY_RESTRICT scale, const float* HWY_RESTRICT shift,
                          std::size_t count, float* HWY_RESTRICT out) {
  for (std::size_t c = 0; c < count; ++c) {
    const float x = static_cast<float>(q[c]) * unit;
    const float y = x * gate_of<kSigmoid>(v[c] * x).h * scale[c] + shift[c];
    out[c] = kOutput == Output::added ? out[c] + y : y;
  }
}

template <Sigmoid kSigmoid, Output kOutput, typename T>
HWY_INLINE void gated_rows(const T* q, float unit, const float* v, const float* scale,
                           const float* shift, std::size_t channels, float* out,
                           std::size_t count) {
  const WideRow row(channels);
  float vs[WideRow::kWide], scales[WideRow::kWide], shifts[WideRow::kWide];
  v = row.spread(v, vs);
  scale = row.spread(scale, scales);
  shift = row.spread(shift, shifts);
  for (std::size_t i = 0; i < count; i += row.width())
    gated_row<kSigmoid, kOutput>(q + i, unit, v, scale, shift, std::min(row.width(), count - i),
                                 out + i);
}

template <Sigmoid kSigmoid, typename T>
HWY_INLINE void gated_as(const T* q, float unit, const float* v, const float* scale,
                         const float* shift, std::size_t channels, Output output, float* out,
                         std::size_t count) {
  (output == Output::added
       ? gated_rows<kSigmoid, Output::added, T>
       : gated_rows<kSigmoid, Output::plain, T>)(q, unit, v, scale, shift, channels, out, count);
}

template <typename T>
HWY_INLINE void gated_with(Sigmoid sigmoid, const T* q, float unit, const float* v,
                           const float* scale, const float* shift, std::size_t channels,
                           Output output, float* out, std::size_t count) {
  (sigmoid == Sigmoid::exact
       ? gated_as<Sigmoid::exact, T>
       : gated_as<Sigmoid::hard, T>)(q, unit, v, scale, shift, channels, output, out, count);
}

template <Sigmoid kSigmoid, typename T>
HWY_INLINE void gated_error_row(const T* HWY_RESTRICT g, const T* HWY_RESTRICT q, float unit,
                                const float* HWY_RESTRICT v, const float* HWY_RESTRICT scale,
                                const float* HWY_RESTRICT slope, const float* HWY_RESTRICT offset,
                                std::size_t count, float* HWY_RESTRICT error) {
  for (std::size_t c = 0; c < count; ++c) {
    const float integer = static_cast<float>(q[c]), z = v[c] * (integer * unit);
    const Gate gate = gate_of<kSigmoid>(z);
    const float through = integer * slope[c] + offset[c];
    error[c] = static_cast<float>(g[c]) * scale[c] * (gate.h + z * gate.slope) - through;
  }
}

template <Sigmoid kSigmoid, typename T>
HWY_INLINE void gated_error_rows(const T* g, const T* q, float unit, const float* v,
                                 const float* scale, const float* slope, const float* offset,
                                 std::size_t channels, float* error, std::size_t count) {
  const WideRow row(channels);
  float vs[WideRow::kWide], scales[WideRow::kWide], slopes[WideRow::kWide], offsets[WideRow::kWide];
  v = row.spread(v, vs);
  scale = row.spread(scale, scales);
  slope = row.spread(slope, slopes);
  offset = row.spread(offset, offsets);
  for (std::size_t i = 0; i < count; i += row.width())
    gated_error_row<kSigmoid>(g + i, q + i, unit, v, scale, slope, offset,
                              std::min(row.width(), count - i), error + i);
}

template <typename T>
HWY_INLINE void gated_error_with(Sigmoid sigmoid, const T* g, const T* q, float unit,
                                 const float* v, const float* scale, const float* slope,
                                 const float* offset, std::size_t channels, float* error,
                                 std::size_t count) {
  (sigmoid == Sigmoid::exact ? gated_error_rows<Sigmoid::exact, T>
                             : gated_error_rows<Sigmoid::hard, T>)(g, q, unit, v, scale, slope,
                                                                   offset, channels, error, count);
}

/// Sums of `tile` channels of at most kFloatSum pixels, in the order of float_sums().
template <Sigmoid kSigmoid, typename T>
HWY_INLINE void gated_sums_of(const T* HWY_RESTRICT g, const T* HWY_RESTRICT q, float unit,
                              const float* HWY_RESTRICT v, std::size_t channels, std::size_t pixels,
                              std::size_t tile, double* HWY_RESTRICT products,
                              double* HWY_RESTRICT slopes) {
  constexpr std::size_t kRows = 4;
  float u[kRows][kTile] = {}, s[kRows][kTile] = {};
  for (std::size_t p = 0; p < pixels; ++p) {
    float *HWY_RESTRICT u_row = u[p % kRows], *HWY_RESTRICT s_row = s[p % kRows];
    for (std::size_t c = 0; c < tile; ++c) {
      const float x = static_cast<float>(q[p * channels + c]) * unit;
      const Gate gate = gate_of<kSigmoid>(v[c] * x);
      const float gx = static_cast<float>(g[p * channels + c]) * x;
      u_row[c] += gx * gate.h;
      s_row[c] += gx * x * gate.slope;
    }
  }
  for (std::size_t c = 0; c < tile; ++c) {
    products[c] += static_cast<double>((u[0][c] + u[1][c]) + (u[2][c] + u[3][c]));
    slopes[c] += static_cast<double>((s[0][c] + s[1][c]) + (s[2][c] + s[3][c]));
  }
}

template <Sigmoid kSigmoid, typename T>
HWY_INLINE void all_gated_sums(const T* g, const T* q, float unit, const float* v,
                               std::size_t channels, std::size_t count, double* products,
                               double* slopes) {
  std::fill_n(products, channels, 0.0);
  std::fill_n(slopes, channels, 0.0);
  for_each_tile(count, channels, kFloatSum,
                [&](std::size_t at, std::size_t c, std::size_t pixels, auto tile) HWY_ATTR {
                  gated_sums_of<kSigmoid>(g + at, q + at, unit, v + c, channels, pixels, tile,
                                          products + c, slopes + c);
                });
}

template <typename T>
HWY_INLINE void gated_sums_with(Sigmoid sigmoid, const T* g, const T* q, float unit, const float* v,
                                std::size_t channels, std::size_t count, double* products,
                                double* slopes) {
  (sigmoid == Sigmoid::exact
       ? all_gated_sums<Sigmoid::exact, T>
       : all_gated_sums<Sigmoid::hard, T>)(g, q, unit, v, channels, count, products, slopes);
}

void gated(Sigmoid sigmoid, const std::int8_t* q, float unit, const float* v, const float* scale,
           const float* shift, std::size_t channels, Output output, float* out, std::size_t count) {
  gated_with(sigmoid, q, unit, v, scale, shift, channels, output, out, count);
}
void gated_floats(Sigmoid sigmoid, const float* q, float unit, const float* v, const float* scale,
                  const float* shift, std::size_t channels, Output output, float* out,
                  std::size_t count) {
  gated_with(sigmoid, q, unit, v, scale, shift, channels, output, out, count);
}

void gated_error(Sigmoid sigmoid, const std::int8_t* g, const std::int8_t* q, float unit,
                 const float* v, const float* scale, const float* slope, const float* offset,
                 std::size_t channels, float* error, std::size_t count) {
  gated_error_with(sigmoid, g, q, unit, v, scale, slope, offset, channels, error, count);
}
void gated_error_floats(Sigmoid sigmoid, const float* g, const float* q, float unit, const float* v,
                        const float* scale, const float* slope, const float* offset,
                        std::size_t channels, float* error, std::size_t count) {
  gated_error_with(sigmoid, g, q, unit, v, scale, slope, offset, channels, error, count);
}

void gated_sums(Sigmoid sigmoid, const std::int8_t* g, const std::int8_t* q, float unit,
                const float* v, std::size_t channels, std::size_t count, double* products,
                double* slopes) {
  gated_sums_with(sigmoid, g, q, unit, v, channels, count, products, slopes);
}
void gated_sums_floats(Sigmoid sigmoid, const float* g, const float* q, float unit, const float* v,
                       std::size_t channels, std::size_t count, double* products, double* slopes) {
  gated_sums_with(sigmoid, g, q, unit, v, channels, count, products, slopes);
}

}  // namespace eqt::model::precision::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace eqt::model::precision {
namespace {

HWY_EXPORT(gated);
HWY_EXPORT(gated_floats);
HWY_EXPORT(gated_sums);
HWY_EXPORT(gated_sums_floats);
HWY_EXPORT(gated_error);
HWY_EXPORT(gated_error_floats);

}  // namespace

void gated(Bytes q, const Activation& activation, Floats scale, Floats shift, Output output,
           std::span<float> out) {
  check_rows(q.size(), scale.size(), out.size());
  EQT_CHECK(output != Output::rectified, "an EvoNorm is an activation itself");
  HWY_DYNAMIC_DISPATCH(gated)
  (activation.sigmoid, q.data(), activation.unit, activation.v.data(), scale.data(), shift.data(),
   scale.size(), output, out.data(), out.size());
}

void gated_sums(Bytes g, Bytes q, const Activation& activation, std::span<double> products,
                std::span<double> slopes) {
  check_rows(g.size(), products.size(), q.size());
  HWY_DYNAMIC_DISPATCH(gated_sums)
  (activation.sigmoid, g.data(), q.data(), activation.unit, activation.v.data(), products.size(),
   g.size(), products.data(), slopes.data());
}

void gated_error(Bytes g, Bytes q, const Activation& activation, Floats scale, Floats slope,
                 Floats offset, std::span<float> error) {
  check_rows(g.size(), scale.size(), error.size());
  HWY_DYNAMIC_DISPATCH(gated_error)
  (activation.sigmoid, g.data(), q.data(), activation.unit, activation.v.data(), scale.data(),
   slope.data(), offset.data(), scale.size(), error.data(), error.size());
}

void gated(Floats q, const Activation& activation, Floats scale, Floats shift, Output output,
           std::span<float> out) {
  check_rows(q.size(), scale.size(), out.size());
  EQT_CHECK(output != Output::rectified, "an EvoNorm is an activation itself");
  HWY_DYNAMIC_DISPATCH(gated_floats)
  (activation.sigmoid, q.data(), activation.unit, activation.v.data(), scale.data(), shift.data(),
   scale.size(), output, out.data(), out.size());
}

void gated_sums(Floats g, Floats q, const Activation& activation, std::span<double> products,
                std::span<double> slopes) {
  check_rows(g.size(), products.size(), q.size());
  HWY_DYNAMIC_DISPATCH(gated_sums_floats)
  (activation.sigmoid, g.data(), q.data(), activation.unit, activation.v.data(), products.size(),
   g.size(), products.data(), slopes.data());
}

void gated_error(Floats g, Floats q, const Activation& activation, Floats scale, Floats slope,
                 Floats offset, std::span<float> error) {
  check_rows(g.size(), scale.size(), error.size());
  HWY_DYNAMIC_DISPATCH(gated_error_floats)
  (activation.sigmoid, g.data(), q.data(), activation.unit, activation.v.data(), scale.data(),
   slope.data(), offset.data(), scale.size(), error.data(), error.size());
}

}  // namespace eqt::model::precision
#endif  // HWY_ONCE
