// SPDX-License-Identifier: Apache-2.0
#include "model/own/token_passes.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "core/error.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "model/own/token_passes.cpp"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

#include <hwy/contrib/math/math-inl.h>

#include "model/own/operands-inl.hpp"
#include "model/vectors-inl.hpp"

#ifndef EQT_MODEL_PRECISION_TOKEN_PASSES_ONCE
#define EQT_MODEL_PRECISION_TOKEN_PASSES_ONCE
namespace eqt::model::precision {

constexpr std::size_t kInterleaved = 16;  // sums of a row

}  // namespace eqt::model::precision
#endif

HWY_BEFORE_NAMESPACE();
namespace eqt::model::precision::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
using eqt::model::HWY_NAMESPACE::for_each_vector;

/// Returns the sum of value(tag, i) over a row, in 16 interleaved sums that are added by halves.
template <class Value>
HWY_INLINE float row_sum(std::size_t count, const Value& value) {
  const hn::CappedTag<float, kInterleaved> d;
  const hn::CappedTag<float, 1> single;
  const std::size_t lanes = hn::Lanes(d);
  float sums[kInterleaved] = {};
  std::size_t i = 0;
  for (; i + kInterleaved <= count; i += kInterleaved)
    for (std::size_t k = 0; k < kInterleaved; k += lanes)
      hn::StoreU(hn::Add(hn::LoadU(d, sums + k), value(d, i + k)), d, sums + k);
  for (std::size_t k = 0; i + k < count; ++k) sums[k] += hn::GetLane(value(single, i + k));
  for (std::size_t half = kInterleaved / 2; half > 0; half /= 2)
    for (std::size_t k = 0; k < half; ++k) sums[k] += sums[k + half];
  return sums[0];
}

void layer_norm(const float* x, std::size_t rows, std::size_t columns, float epsilon,
                float* inverse, float* out) {
  const float share = 1.0f / static_cast<float>(columns);
  for (std::size_t r = 0; r < rows; ++r, x += columns, out += columns) {
    const float mean = share * row_sum(columns, [&](auto d, std::size_t i)
                                                    HWY_ATTR { return hn::LoadU(d, x + i); });
    const float variance = share * row_sum(columns, [&](auto d, std::size_t i) HWY_ATTR {
                             const auto from = hn::Sub(hn::LoadU(d, x + i), hn::Set(d, mean));
                             return hn::Mul(from, from);
                           });
    inverse[r] = 1.0f / std::sqrt(variance + epsilon);
    for_each_vector(columns, [&](auto d, std::size_t i) HWY_ATTR {
      const auto from = hn::Sub(hn::LoadU(d, x + i), hn::Set(d, mean));
      hn::StoreU(hn::Mul(from, hn::Set(d, inverse[r])), d, out + i);
    });
  }
}

template <typename T>
HWY_INLINE void layer_norm_error_of(const float* g, const T* q, float scale, const float* inverse,
                                    std::size_t rows, std::size_t columns, float* error) {
  const float share = 1.0f / static_cast<float>(columns);
  for (std::size_t r = 0; r < rows; ++r, g += columns, q += columns, error += columns) {
    const float mean = share * row_sum(columns, [&](auto d, std::size_t i)
                                                    HWY_ATTR { return hn::LoadU(d, g + i); });
    const float slope = share * scale * row_sum(columns, [&](auto d, std::size_t i) HWY_ATTR {
                          return hn::Mul(hn::LoadU(d, g + i), load_operands(d, q + i));
                        });
    const float by_value = slope * scale;
    for_each_vector(columns, [&](auto d, std::size_t i) HWY_ATTR {
      const auto taken = hn::Mul(load_operands(d, q + i), hn::Set(d, by_value));
      const auto rest = hn::Sub(hn::Sub(hn::LoadU(d, g + i), hn::Set(d, mean)), taken);
      const auto added = hn::Mul(rest, hn::Set(d, inverse[r]));
      hn::StoreU(hn::Add(hn::LoadU(d, error + i), added), d, error + i);
    });
  }
}
void layer_norm_error(const float* g, const std::int8_t* q, float scale, const float* inverse,
                      std::size_t rows, std::size_t columns, float* error) {
  layer_norm_error_of(g, q, scale, inverse, rows, columns, error);
}
void layer_norm_error_floats(const float* g, const float* q, float scale, const float* inverse,
                             std::size_t rows, std::size_t columns, float* error) {
  layer_norm_error_of(g, q, scale, inverse, rows, columns, error);
}

void exponentials(float* x, std::size_t rows, std::size_t columns) {
  for (std::size_t r = 0; r < rows; ++r, x += columns) {
    float largest = x[0];
    for (std::size_t i = 1; i < columns; ++i) largest = std::max(largest, x[i]);
    for_each_vector(columns, [&](auto d, std::size_t i) HWY_ATTR {
      hn::StoreU(hn::Exp(d, hn::Sub(hn::LoadU(d, x + i), hn::Set(d, largest))), d, x + i);
    });
  }
}

template <typename T>
HWY_INLINE void row_sums_of(const T* q, float zero_point, float scale, std::size_t rows,
                            std::size_t columns, float* sums) {
  for (std::size_t r = 0; r < rows; ++r, q += columns)
    sums[r] = scale * row_sum(columns, [&](auto d, std::size_t i) HWY_ATTR {
                return hn::Sub(load_operands(d, q + i), hn::Set(d, zero_point));
              });
}
void row_sums(const std::int8_t* q, float zero_point, float scale, std::size_t rows,
              std::size_t columns, float* sums) {
  row_sums_of(q, zero_point, scale, rows, columns, sums);
}
void row_sums_floats(const float* q, float zero_point, float scale, std::size_t rows,
                     std::size_t columns, float* sums) {
  row_sums_of(q, zero_point, scale, rows, columns, sums);
}

template <typename T>
HWY_INLINE void softmax_error_of(const T* q, float zero_point, float scale, const float* totals,
                                 std::size_t rows, std::size_t columns, float* g) {
  for (std::size_t r = 0; r < rows; ++r, q += columns, g += columns) {
    const float sum = scale * row_sum(columns, [&](auto d, std::size_t i) HWY_ATTR {
                        const auto e = hn::Sub(load_operands(d, q + i), hn::Set(d, zero_point));
                        return hn::Mul(e, hn::LoadU(d, g + i));
                      });
    const float mean = sum / totals[r];
    for_each_vector(columns, [&](auto d, std::size_t i) HWY_ATTR {
      const auto e =
          hn::Mul(hn::Sub(load_operands(d, q + i), hn::Set(d, zero_point)), hn::Set(d, scale));
      hn::StoreU(hn::Mul(e, hn::Sub(hn::LoadU(d, g + i), hn::Set(d, mean))), d, g + i);
    });
  }
}
void softmax_error(const std::int8_t* q, float zero_point, float scale, const float* totals,
                   std::size_t rows, std::size_t columns, float* g) {
  softmax_error_of(q, zero_point, scale, totals, rows, columns, g);
}
void softmax_error_floats(const float* q, float zero_point, float scale, const float* totals,
                          std::size_t rows, std::size_t columns, float* g) {
  softmax_error_of(q, zero_point, scale, totals, rows, columns, g);
}

void scale_columns(const float* x, const float* factors, std::size_t rows, std::size_t columns,
                   float* out) {
  for (std::size_t r = 0; r < rows; ++r, x += columns, out += columns)
    for_each_vector(columns, [&](auto d, std::size_t i) HWY_ATTR {
      hn::StoreU(hn::Mul(hn::LoadU(d, x + i), hn::LoadU(d, factors + i)), d, out + i);
    });
}

void unfold_gradient(const float* weights, const float* gain, const float* norm_bias,
                     const float* bias, std::size_t rows, std::size_t columns, float* weight,
                     float* gains, float* biases) {
  for (std::size_t r = 0; r < rows; ++r, weights += columns, weight += columns)
    for_each_vector(columns, [&](auto d, std::size_t i) HWY_ATTR {
      const auto w = hn::LoadU(d, weights + i), g = hn::LoadU(d, weight + i);
      const auto b = hn::Set(d, bias[r]);
      hn::StoreU(hn::Add(hn::LoadU(d, gains + i), hn::Mul(w, g)), d, gains + i);
      hn::StoreU(hn::Add(hn::LoadU(d, biases + i), hn::Mul(w, b)), d, biases + i);
      const auto of_bias = hn::Mul(hn::LoadU(d, norm_bias + i), b);
      hn::StoreU(hn::Add(hn::Mul(hn::LoadU(d, gain + i), g), of_bias), d, weight + i);
    });
}

void take_columns(const float* x, std::size_t rows, std::size_t columns, std::size_t taken,
                  float factor, float* out) {
  for (std::size_t r = 0; r < rows; ++r, x += columns, out += taken)
    for_each_vector(taken, [&](auto d, std::size_t i) HWY_ATTR {
      hn::StoreU(hn::Mul(hn::LoadU(d, x + i), hn::Set(d, factor)), d, out + i);
    });
}

}  // namespace eqt::model::precision::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace eqt::model::precision {
namespace {

HWY_EXPORT(layer_norm);
HWY_EXPORT(layer_norm_error);
HWY_EXPORT(layer_norm_error_floats);
HWY_EXPORT(exponentials);
HWY_EXPORT(row_sums);
HWY_EXPORT(row_sums_floats);
HWY_EXPORT(softmax_error);
HWY_EXPORT(softmax_error_floats);
HWY_EXPORT(scale_columns);
HWY_EXPORT(take_columns);
HWY_EXPORT(unfold_gradient);

/// @return the columns of `values` in as many rows
std::size_t columns_of(std::size_t values, std::size_t rows, std::size_t others) {
  EQT_CHECK(rows > 0 && values > 0 && values % rows == 0 && others == values,
            "{} values and {} in {} rows", values, others, rows);
  return values / rows;
}

}  // namespace

void layer_norm(Floats x, float epsilon, std::span<float> inverse, std::span<float> out) {
  const std::size_t columns = columns_of(x.size(), inverse.size(), out.size());
  HWY_DYNAMIC_DISPATCH(layer_norm)
  (x.data(), inverse.size(), columns, epsilon, inverse.data(), out.data());
}

void add_layer_norm_error(Floats g, Bytes normalized, float scale, Floats inverse,
                          std::span<float> error) {
  const std::size_t columns = columns_of(g.size(), inverse.size(), normalized.size());
  HWY_DYNAMIC_DISPATCH(layer_norm_error)
  (g.data(), normalized.data(), scale, inverse.data(), inverse.size(), columns, error.data());
}

void add_layer_norm_error(Floats g, Floats normalized, float scale, Floats inverse,
                          std::span<float> error) {
  const std::size_t columns = columns_of(g.size(), inverse.size(), normalized.size());
  HWY_DYNAMIC_DISPATCH(layer_norm_error_floats)
  (g.data(), normalized.data(), scale, inverse.data(), inverse.size(), columns, error.data());
}

void exponentials(std::size_t columns, std::span<float> x) {
  columns_of(x.size(), x.size() / columns, x.size());
  HWY_DYNAMIC_DISPATCH(exponentials)(x.data(), x.size() / columns, columns);
}

void row_sums(Bytes q, int zero_point, float scale, std::span<float> sums) {
  const std::size_t columns = columns_of(q.size(), sums.size(), q.size());
  HWY_DYNAMIC_DISPATCH(row_sums)
  (q.data(), static_cast<float>(zero_point), scale, sums.size(), columns, sums.data());
}

void row_sums(Floats q, int zero_point, float scale, std::span<float> sums) {
  const std::size_t columns = columns_of(q.size(), sums.size(), q.size());
  HWY_DYNAMIC_DISPATCH(row_sums_floats)
  (q.data(), static_cast<float>(zero_point), scale, sums.size(), columns, sums.data());
}

void softmax_error(Bytes q, int zero_point, float scale, Floats totals, std::span<float> g) {
  const std::size_t columns = columns_of(q.size(), totals.size(), g.size());
  HWY_DYNAMIC_DISPATCH(softmax_error)
  (q.data(), static_cast<float>(zero_point), scale, totals.data(), totals.size(), columns,
   g.data());
}

void softmax_error(Floats q, int zero_point, float scale, Floats totals, std::span<float> g) {
  const std::size_t columns = columns_of(q.size(), totals.size(), g.size());
  HWY_DYNAMIC_DISPATCH(softmax_error_floats)
  (q.data(), static_cast<float>(zero_point), scale, totals.data(), totals.size(), columns,
   g.data());
}

void scale_columns(Floats x, Floats factors, std::span<float> out) {
  const std::size_t rows = x.size() / factors.size();
  columns_of(x.size(), rows, out.size());
  HWY_DYNAMIC_DISPATCH(scale_columns)(x.data(), factors.data(), rows, factors.size(), out.data());
}

void unfold_gradient(Floats weights, Floats gain, Floats norm_bias, Floats bias,
                     std::span<float> weight, std::span<float> gains, std::span<float> biases) {
  const std::size_t columns = columns_of(weights.size(), bias.size(), weight.size());
  EQT_CHECK(gain.size() == columns && norm_bias.size() == columns && gains.size() == columns &&
                biases.size() == columns,
            "{} gains of {} columns", gain.size(), columns);
  std::ranges::fill(gains, 0.0f);
  std::ranges::fill(biases, 0.0f);
  HWY_DYNAMIC_DISPATCH(unfold_gradient)
  (weights.data(), gain.data(), norm_bias.data(), bias.data(), bias.size(), columns, weight.data(),
   gains.data(), biases.data());
}

void take_columns(Floats x, std::size_t columns, std::size_t first, std::size_t taken, float factor,
                  std::span<float> out) {
  const std::size_t rows = x.size() / columns;
  EQT_CHECK(rows * columns == x.size() && first + taken <= columns && out.size() == rows * taken,
            "{} values of {} columns, {} from {} on into {}", x.size(), columns, taken, first,
            out.size());
  HWY_DYNAMIC_DISPATCH(take_columns)
  (x.data() + first, rows, columns, taken, factor, out.data());
}

}  // namespace eqt::model::precision
#endif  // HWY_ONCE
