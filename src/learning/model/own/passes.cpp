// SPDX-License-Identifier: Apache-2.0
// Loops over the channels of a pixel, compiled once for each instruction set: no operation depends
// on another lane. The compiler makes vectors of most of them.
#include "model/own/passes.hpp"

#include <algorithm>
#include <bit>
#include <type_traits>

#include "core/error.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "model/own/passes.cpp"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

#include "model/own/operands-inl.hpp"

#ifndef EQT_MODEL_PRECISION_PASSES_ONCE
#define EQT_MODEL_PRECISION_PASSES_ONCE
namespace eqt::model::precision {

constexpr std::size_t kTile = 16;      // channels at a time
constexpr std::size_t kFloatSum = 64;  // pixels of a sum in float32
constexpr std::size_t kFilters = 8;    // filters at a time

/// Parameters of a row of several pixels, so that vectors are full where there are few channels.
class WideRow {
 public:
  explicit WideRow(std::size_t channels)
      : channels_(channels), width_(std::max<std::size_t>(1, kWide / channels) * channels) {}

  std::size_t width() const { return width_; }

  /// The parameter of each column: `values` itself, or its repetition in `memory`.
  const float* spread(const float* values, float* memory) const {
    if (width_ == channels_) return values;
    for (std::size_t i = 0; i < width_; i += channels_) std::copy_n(values, channels_, memory + i);
    return memory;
  }

  static constexpr std::size_t kWide = 256;  // [floats] 16 vectors of AVX-512

 private:
  std::size_t channels_, width_;
};

}  // namespace eqt::model::precision
#endif

HWY_BEFORE_NAMESPACE();
namespace eqt::model::precision::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

/// Calls body(tag, value, column) for each vector of the wide rows.
template <typename Body>
HWY_INLINE void for_each_vector(const WideRow& row, std::size_t count, const Body& body) {
  const hn::ScalableTag<float> full;
  const hn::CappedTag<float, 1> single;
  const std::size_t lanes = hn::Lanes(full);
  for (std::size_t i = 0; i < count; i += row.width()) {
    const std::size_t width = std::min(row.width(), count - i);
    std::size_t c = 0;
    for (; c + lanes <= width; c += lanes) body(full, i + c, c);
    for (; c < width; ++c) body(single, i + c, c);
  }
}

/// Calls body(first value, first channel, pixels, channels) for tiles of kTile channels and of half
/// as many, constants of their types, and of what is left, each of at most `most` pixels.
template <typename Body>
HWY_INLINE void for_each_tile(std::size_t count, std::size_t channels, std::size_t most,
                              const Body& body) {
  const std::size_t pixels = count / channels;
  for (std::size_t p = 0; p < pixels; p += most) {
    const std::size_t some = std::min(most, pixels - p), at = p * channels;
    std::size_t c = 0;
    for (; c + kTile <= channels; c += kTile)
      body(at + c, c, some, std::integral_constant<std::size_t, kTile>());
    for (; c + kTile / 2 <= channels; c += kTile / 2)
      body(at + c, c, some, std::integral_constant<std::size_t, kTile / 2>());
    if (c < channels) body(at + c, c, some, channels - c);
  }
}

void add_bias(const float* HWY_RESTRICT bias, std::size_t channels, float* HWY_RESTRICT x,
              std::size_t count) {
  for (std::size_t i = 0; i < count; i += channels)
    for (std::size_t c = 0; c < channels; ++c) x[i + c] += bias[c];
}

/// Adds `pixels` rows of kChannels channels up, four interleaved sums each, so that additions
/// overlap.
template <bool kSquares, std::size_t kChannels>
HWY_INLINE void float_sums(const float* HWY_RESTRICT x, std::size_t channels, std::size_t pixels,
                           const float* HWY_RESTRICT mean, double* HWY_RESTRICT out) {
  constexpr std::size_t kRows = 4;
  const hn::CappedTag<float, kChannels> d;
  constexpr std::size_t kLanes = hn::MaxLanes(d), kVectors = kChannels / kLanes;
  using Vector = hn::Vec<decltype(d)>;
  Vector sums[kRows][kVectors];
  for (auto& row : sums)
    for (Vector& sum : row) sum = hn::Zero(d);
  const auto add = [&](std::size_t pixel, Vector(&row)[kVectors]) HWY_ATTR {
    for (std::size_t v = 0; v < kVectors; ++v) {
      Vector value = hn::LoadU(d, x + pixel * channels + v * kLanes);
      if constexpr (kSquares) {
        value = hn::Sub(value, hn::LoadU(d, mean + v * kLanes));
        value = hn::Mul(value, value);
      }
      row[v] = hn::Add(row[v], value);
    }
  };
  std::size_t p = 0;
  for (; p + kRows <= pixels; p += kRows)
    for (std::size_t r = 0; r < kRows; ++r) add(p + r, sums[r]);
  for (std::size_t r = 0; p < pixels; ++p, ++r) add(p, sums[r]);
  float all[kChannels];
  for (std::size_t v = 0; v < kVectors; ++v) {
    const Vector low = hn::Add(sums[0][v], sums[1][v]), high = hn::Add(sums[2][v], sums[3][v]);
    hn::StoreU(hn::Add(low, high), d, all + v * kLanes);
  }
  for (std::size_t c = 0; c < kChannels; ++c) out[c] += static_cast<double>(all[c]);
}

template <bool kSquares>
HWY_INLINE void all_float_sums(const float* x, std::size_t count, const float* mean,
                               std::size_t channels, double* out) {
  std::fill_n(out, channels, 0.0);
  for_each_tile(
      count, channels, kFloatSum,
      [&](std::size_t at, std::size_t c, std::size_t pixels, auto tile) HWY_ATTR {
        // The compiler does not know how many channels the last tile has.
        if constexpr (std::is_same_v<decltype(tile), std::size_t>)
          for (std::size_t i = 0; i < tile; ++i)
            float_sums<kSquares, 1>(x + at + i, channels, pixels, mean + c + i, out + c + i);
        else
          float_sums<kSquares, decltype(tile)::value>(x + at, channels, pixels, mean + c, out + c);
      });
}

void channel_sums(const float* x, std::size_t count, std::size_t channels, double* out) {
  all_float_sums<false>(x, count, x, channels, out);
}
void channel_squares(const float* x, std::size_t count, const float* mean, std::size_t channels,
                     double* out) {
  all_float_sums<true>(x, count, mean, channels, out);
}

void filter_patches(const float* picture, const data::ImageShape& shape, std::size_t side,
                    const float* weights, const float* bias, std::size_t filters, float* out) {
  const auto channels = static_cast<std::size_t>(shape.channels);
  const std::size_t row = channels * static_cast<std::size_t>(shape.width), taps = side * channels;
  for (std::size_t y = 0; y + side <= static_cast<std::size_t>(shape.height); ++y) {
    for (std::size_t x = 0; x + side <= static_cast<std::size_t>(shape.width); ++x) {
      const float* const patch = picture + y * row + x * channels;
      for (std::size_t f = 0; f < filters; f += kFilters, out += kFilters) {
        float sums[kFilters];
        std::copy_n(bias + f, kFilters, sums);
        const float* w = weights + f;
        for (std::size_t i = 0; i < side; ++i)
          for (std::size_t k = 0; k < taps; ++k, w += filters)
            for (std::size_t j = 0; j < kFilters; ++j) sums[j] += patch[i * row + k] * w[j];
        std::copy_n(sums, kFilters, out);
      }
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
  for_each_vector(row, count, [&](auto d, std::size_t i, std::size_t c) HWY_ATTR {
    // Not fused, so that all processors round alike.
    const auto scaled = hn::Mul(load_operands(d, q + i), hn::LoadU(d, scale + c));
    auto v = hn::Add(scaled, hn::LoadU(d, shift + c));
    if constexpr (kOutput == Output::added) v = hn::Add(hn::LoadU(d, out + i), v);
    if constexpr (kOutput == Output::rectified || kOutput == Output::clipped)
      v = hn::IfThenElseZero(hn::Gt(v, hn::Zero(d)), v);
    if constexpr (kOutput == Output::clipped)
      v = hn::IfThenElse(hn::Lt(v, hn::Set(d, kClip)), v, hn::Set(d, kClip));
    hn::StoreU(v, d, out + i);
  });
}

template <typename T>
HWY_INLINE void affine_as(const T* q, const float* scale, const float* shift, std::size_t channels,
                          Output output, float* out, std::size_t count) {
  if (output == Output::plain) affine_rows<Output::plain>(q, scale, shift, channels, out, count);
  if (output == Output::added) affine_rows<Output::added>(q, scale, shift, channels, out, count);
  if (output == Output::rectified)
    affine_rows<Output::rectified>(q, scale, shift, channels, out, count);
  if (output == Output::clipped)
    affine_rows<Output::clipped>(q, scale, shift, channels, out, count);
}

void affine(const std::int8_t* q, const float* scale, const float* shift, std::size_t channels,
            Output output, float* out, std::size_t count) {
  affine_as(q, scale, shift, channels, output, out, count);
}
void affine_floats(const float* q, const float* scale, const float* shift, std::size_t channels,
                   Output output, float* out, std::size_t count) {
  affine_as(q, scale, shift, channels, output, out, count);
}

/// The extremes of `kVectors` vectors of neighbouring columns of the rows.
template <std::size_t kVectors>
HWY_INLINE void column_extremes(const std::int8_t* HWY_RESTRICT q, std::size_t width,
                                std::size_t rows, std::int8_t* HWY_RESTRICT low,
                                std::int8_t* HWY_RESTRICT high) {
  const hn::ScalableTag<std::int8_t> d;
  const std::size_t lanes = hn::Lanes(d);
  hn::Vec<decltype(d)> least[kVectors], greatest[kVectors];
  for (std::size_t v = 0; v < kVectors; ++v) least[v] = greatest[v] = hn::LoadU(d, q + v * lanes);
  for (std::size_t r = 1; r < rows; ++r) {
    for (std::size_t v = 0; v < kVectors; ++v) {
      const auto values = hn::LoadU(d, q + r * width + v * lanes);
      least[v] = hn::Min(least[v], values);
      greatest[v] = hn::Max(greatest[v], values);
    }
  }
  for (std::size_t v = 0; v < kVectors; ++v) {
    hn::StoreU(least[v], d, low + v * lanes);
    hn::StoreU(greatest[v], d, high + v * lanes);
  }
}

/// The extremes of each column. @pre rows > 0
HWY_INLINE void all_column_extremes(const std::int8_t* q, std::size_t width, std::size_t rows,
                                    std::int8_t* low, std::int8_t* high) {
  const std::size_t lanes = hn::Lanes(hn::ScalableTag<std::int8_t>());
  std::size_t c = 0;
  for (; c + 4 * lanes <= width; c += 4 * lanes)
    column_extremes<4>(q + c, width, rows, low + c, high + c);
  for (; c + lanes <= width; c += lanes) column_extremes<1>(q + c, width, rows, low + c, high + c);
  if (c == width) return;
  if (width >= lanes) {  // some columns twice
    const std::size_t last = width - lanes;
    return column_extremes<1>(q + last, width, rows, low + last, high + last);
  }
  std::copy_n(q, width, low);
  std::copy_n(q, width, high);
  for (std::size_t i = width; i < rows * width; ++i) {
    low[i % width] = std::min(low[i % width], q[i]);
    high[i % width] = std::max(high[i % width], q[i]);
  }
}

void channel_extremes(const std::int8_t* q, std::size_t count, std::size_t channels,
                      std::int8_t* low, std::int8_t* high) {
  const WideRow row(channels);
  const std::size_t width = row.width(), rows = count / width;
  if (width == channels && rows > 0) return all_column_extremes(q, width, rows, low, high);
  std::int8_t lows[WideRow::kWide], highs[WideRow::kWide];
  std::fill_n(low, channels, std::int8_t{127});
  std::fill_n(high, channels, std::int8_t{-128});
  const auto fold = [&](const std::int8_t* values, std::size_t some) {
    for (std::size_t i = 0; i < some; i += channels) {
      for (std::size_t c = 0; c < channels; ++c) {
        low[c] = std::min(low[c], values[i + c]);
        high[c] = std::max(high[c], values[i + c]);
      }
    }
  };
  fold(q + rows * width, count - rows * width);
  if (rows == 0) return;
  all_column_extremes(q, width, rows, lows, highs);
  fold(lows, width);
  fold(highs, width);
}

template <bool kClips, typename T>
HWY_INLINE void gate_affine_as(const T* q, const float* scale, const float* shift,
                               std::size_t channels, T* g, std::size_t count) {
  const WideRow row(channels);
  float scales[WideRow::kWide], shifts[WideRow::kWide];
  scale = row.spread(scale, scales);
  shift = row.spread(shift, shifts);
  for_each_vector(row, count, [&](auto d, std::size_t i, std::size_t c) HWY_ATTR {
    const auto scaled = hn::Mul(load_operands(d, q + i), hn::LoadU(d, scale + c));
    const auto before = hn::Add(scaled, hn::LoadU(d, shift + c));
    auto kept = hn::IfThenElseZero(hn::Gt(before, hn::Zero(d)), load_operands(d, g + i));
    if constexpr (kClips) kept = hn::IfThenElseZero(hn::Lt(before, hn::Set(d, kClip)), kept);
    store_operands(d, kept, g + i);
  });
}

template <typename T>
HWY_INLINE void gate_affine_with(const T* q, const float* scale, const float* shift,
                                 std::size_t channels, Output output, T* g, std::size_t count) {
  (output == Output::clipped ? gate_affine_as<true, T>
                             : gate_affine_as<false, T>)(q, scale, shift, channels, g, count);
}

void gate_affine(const std::int8_t* q, const float* scale, const float* shift, std::size_t channels,
                 Output output, std::int8_t* g, std::size_t count) {
  gate_affine_with(q, scale, shift, channels, output, g, count);
}
void gate_affine_floats(const float* q, const float* scale, const float* shift,
                        std::size_t channels, Output output, float* g, std::size_t count) {
  gate_affine_with(q, scale, shift, channels, output, g, count);
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

void hard_swish(float* HWY_RESTRICT x, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    const float above = x[i] + 3.0f > 0 ? x[i] + 3.0f : 0.0f;
    x[i] = x[i] * (above < 6.0f ? above : 6.0f) / 6.0f;
  }
}

void hard_swish_gradient(const float* HWY_RESTRICT before, float* HWY_RESTRICT error,
                         std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    const float x = before[i], slope = x / 3.0f + 0.5f;
    error[i] *= x < -3.0f ? 0.0f : (x <= 3.0f ? slope : 1.0f);
  }
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

/// Calls body(tag, errors, place) for each vector of a norm's errors.
template <typename T, typename Body>
HWY_INLINE void for_each_norm_error(const T* g, const T* x, const float* scale, const float* slope,
                                    const float* offset, std::size_t channels, std::size_t count,
                                    const Body& body) {
  const WideRow row(channels);
  float scales[WideRow::kWide], slopes[WideRow::kWide], offsets[WideRow::kWide];
  scale = row.spread(scale, scales);
  slope = row.spread(slope, slopes);
  offset = row.spread(offset, offsets);
  for_each_vector(row, count, [&](auto d, std::size_t i, std::size_t c) HWY_ATTR {
    const auto product = hn::Mul(load_operands(d, x + i), hn::LoadU(d, slope + c));
    const auto through = hn::Add(product, hn::LoadU(d, offset + c));
    const auto scaled = hn::Mul(load_operands(d, g + i), hn::LoadU(d, scale + c));
    body(d, hn::Sub(scaled, through), i);
  });
}

template <typename T>
HWY_INLINE void norm_error_as(const T* g, const T* x, const float* scale, const float* slope,
                              const float* offset, std::size_t channels, float* error,
                              std::size_t count) {
  for_each_norm_error(g, x, scale, slope, offset, channels, count,
                      [&](auto d, auto errors, std::size_t i)
                          HWY_ATTR { hn::StoreU(errors, d, error + i); });
}

float largest_norm_error(const std::int8_t* g, const std::int8_t* x, const float* scale,
                         const float* slope, const float* offset, std::size_t channels,
                         std::size_t count) {
  // Bits are compared: their order is that of magnitudes, with NaN above infinity.
  const hn::ScalableTag<std::int32_t> full;
  auto largest = hn::Zero(full);
  std::int32_t of_rest = 0;
  for_each_norm_error(
      g, x, scale, slope, offset, channels, count, [&](auto d, auto errors, std::size_t) HWY_ATTR {
        const hn::RebindToSigned<decltype(d)> integers;
        const auto bits = hn::And(hn::BitCast(integers, errors), hn::Set(integers, 0x7FFFFFFF));
        if constexpr (std::is_same_v<decltype(d), hn::ScalableTag<float>>) {
          largest = hn::Max(largest, bits);
        } else {
          of_rest = std::max(of_rest, hn::GetLane(bits));
        }
      });
  return std::bit_cast<float>(std::max(of_rest, hn::GetLane(hn::MaxOfLanes(full, largest))));
}

void norm_error(const std::int8_t* g, const std::int8_t* x, const float* scale, const float* slope,
                const float* offset, std::size_t channels, float* error, std::size_t count) {
  norm_error_as(g, x, scale, slope, offset, channels, error, count);
}
void norm_error_floats(const float* g, const float* x, const float* scale, const float* slope,
                       const float* offset, std::size_t channels, float* error, std::size_t count) {
  norm_error_as(g, x, scale, slope, offset, channels, error, count);
}

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

HWY_EXPORT(filter_patches);
HWY_EXPORT(add_bias);
HWY_EXPORT(channel_sums);
HWY_EXPORT(channel_squares);
HWY_EXPORT(affine);
HWY_EXPORT(affine_floats);
HWY_EXPORT(channel_extremes);
HWY_EXPORT(add_scaled);
HWY_EXPORT(add_scaled_floats);
HWY_EXPORT(add);
HWY_EXPORT(rectify);
HWY_EXPORT(hard_swish);
HWY_EXPORT(hard_swish_gradient);
HWY_EXPORT(gate);
HWY_EXPORT(gate_floats);
HWY_EXPORT(gate_affine);
HWY_EXPORT(gate_affine_floats);
HWY_EXPORT(error_sums);
HWY_EXPORT(error_sums_floats);
HWY_EXPORT(norm_error);
HWY_EXPORT(norm_error_floats);
HWY_EXPORT(largest_norm_error);
HWY_EXPORT(gated);
HWY_EXPORT(gated_floats);
HWY_EXPORT(gated_sums);
HWY_EXPORT(gated_sums_floats);
HWY_EXPORT(gated_error);
HWY_EXPORT(gated_error_floats);

void check_rows(std::size_t values, std::size_t channels, std::size_t others) {
  EQT_CHECK(channels > 0 && values % channels == 0 && others == values,
            "{} values and {} of {} channels", values, others, channels);
}

}  // namespace

void filter_patches(Floats picture, const data::ImageShape& shape, int side, Floats weights,
                    Floats bias, std::span<float> out) {
  const std::size_t taps = static_cast<std::size_t>(side * side * shape.channels);
  const auto places =
      static_cast<std::size_t>((shape.height - side + 1) * (shape.width - side + 1));
  EQT_CHECK(picture.size() == shape.values() && weights.size() == taps * bias.size() &&
                bias.size() % kFilters == 0 && out.size() == places * bias.size(),
            "{} values, {} weights of {} filters", picture.size(), weights.size(), bias.size());
  HWY_DYNAMIC_DISPATCH(filter_patches)
  (picture.data(), shape, static_cast<std::size_t>(side), weights.data(), bias.data(), bias.size(),
   out.data());
}

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

void channel_extremes(Bytes q, std::span<std::int8_t> low, std::span<std::int8_t> high) {
  check_rows(q.size(), low.size(), q.size());
  EQT_CHECK(high.size() == low.size(), "{} and {} channels", low.size(), high.size());
  HWY_DYNAMIC_DISPATCH(channel_extremes)
  (q.data(), q.size(), low.size(), low.data(), high.data());
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

void hard_swish(std::span<float> x) { HWY_DYNAMIC_DISPATCH(hard_swish)(x.data(), x.size()); }

void hard_swish_gradient(Floats before, std::span<float> error) {
  check_rows(before.size(), 1, error.size());
  HWY_DYNAMIC_DISPATCH(hard_swish_gradient)(before.data(), error.data(), error.size());
}

void gate(Floats before, std::span<std::int8_t> g) {
  check_rows(before.size(), 1, g.size());
  HWY_DYNAMIC_DISPATCH(gate)(before.data(), g.data(), g.size());
}

void gate(Floats before, std::span<float> g) {
  check_rows(before.size(), 1, g.size());
  HWY_DYNAMIC_DISPATCH(gate_floats)(before.data(), g.data(), g.size());
}

void gate_affine(Floats q, Floats scale, Floats shift, Output output, std::span<float> g) {
  check_rows(q.size(), scale.size(), g.size());
  HWY_DYNAMIC_DISPATCH(gate_affine_floats)
  (q.data(), scale.data(), shift.data(), scale.size(), output, g.data(), g.size());
}

void gate_affine(Bytes q, Floats scale, Floats shift, Output output, std::span<std::int8_t> g) {
  check_rows(q.size(), scale.size(), g.size());
  HWY_DYNAMIC_DISPATCH(gate_affine)
  (q.data(), scale.data(), shift.data(), scale.size(), output, g.data(), g.size());
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

float largest_norm_error(Bytes g, Bytes x, Floats scale, Floats slope, Floats offset) {
  check_rows(g.size(), scale.size(), x.size());
  return HWY_DYNAMIC_DISPATCH(largest_norm_error)(g.data(), x.data(), scale.data(), slope.data(),
                                                  offset.data(), scale.size(), g.size());
}

void gated(Bytes q, const Activation& activation, Floats scale, Floats shift, Output output,
           std::span<float> out) {
  check_rows(q.size(), scale.size(), out.size());
  EQT_CHECK(output == Output::plain || output == Output::added,
            "an EvoNorm is an activation itself");
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
  EQT_CHECK(output == Output::plain || output == Output::added,
            "an EvoNorm is an activation itself");
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
