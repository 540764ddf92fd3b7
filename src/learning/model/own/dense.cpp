// SPDX-License-Identifier: Apache-2.0
#include "model/own/dense.hpp"

#include <algorithm>
#include <cstddef>

#include "core/error.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "model/own/dense.cpp"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

#ifndef EQT_MODEL_OWN_DENSE_ONCE
#define EQT_MODEL_OWN_DENSE_ONCE
namespace eqt::model::precision {

constexpr std::size_t kDenseLanes = 16;  // sums of a product of rows, whatever a vector holds

/// RowsOf is a matrix, whose rows of `count` values stand one behind the other.
struct RowsOf {
  const float* values;
  std::size_t count;
};

/// Factors belong to sums of rows: that of row k in sum r is at k * `by_row` + r * `by_sum`.
struct Factors {
  const float* values;
  std::size_t by_row, by_sum;
};

}  // namespace eqt::model::precision
#endif

HWY_BEFORE_NAMESPACE();
namespace eqt::model::precision::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using DenseTag = hn::CappedTag<float, kDenseLanes>;
using DenseFloats = hn::Vec<DenseTag>;
constexpr std::size_t kDenseVector = hn::MaxLanes(DenseTag());
constexpr std::size_t kVectors = kDenseLanes / kDenseVector;

/// Adds the sums of each product in halves.
template <std::size_t kProducts>
HWY_INLINE void add_halves(float (&sums)[kProducts][kDenseLanes]) {
  for (std::size_t half = kDenseLanes / 2; half > 0; half /= 2)
    for (auto& of_product : sums)
      for (std::size_t k = 0; k < half; ++k) of_product[k] += of_product[k + half];
}

/// Computes the products of kRows rows of x with kOutputs of the weights: several at a time, since
/// the sums of one wait for each other.
template <std::size_t kRows, std::size_t kOutputs>
HWY_INLINE void store_products(const RowsOf& x, const RowsOf& weight, const float* bias, float* out,
                               std::size_t outputs) {
  const DenseTag d;
  const std::size_t count = x.count;
  DenseFloats sums[kRows * kOutputs][kVectors];
  for (auto& of_product : sums)
    for (auto& sum : of_product) sum = hn::Zero(d);
  // Behind the end are zeros, whose products change no sum.
  const auto add = [&](std::size_t i, const auto& load) HWY_ATTR {
    for (std::size_t v = 0; v < kVectors; ++v) {
      const std::size_t at = i + v * kDenseVector;
      DenseFloats factors[kOutputs];
      for (std::size_t o = 0; o < kOutputs; ++o) factors[o] = load(weight.values + o * count, at);
      for (std::size_t r = 0; r < kRows; ++r) {
        const auto values = load(x.values + r * count, at);
        for (std::size_t o = 0; o < kOutputs; ++o) {
          auto& sum = sums[r * kOutputs + o][v];
          sum = hn::Add(sum, hn::Mul(values, factors[o]));
        }
      }
    }
  };
  std::size_t i = 0;
  for (; i + kDenseLanes <= count; i += kDenseLanes)
    add(i, [&](const float* row, std::size_t at) HWY_ATTR { return hn::LoadU(d, row + at); });
  if (i < count) {
    add(i, [&](const float* row, std::size_t at) HWY_ATTR {
      float rest[kDenseVector] = {};
      if (at < count) std::copy_n(row + at, std::min(kDenseVector, count - at), rest);
      return hn::LoadU(d, rest);
    });
  }
  float all[kRows * kOutputs][kDenseLanes];
  for (std::size_t p = 0; p < kRows * kOutputs; ++p)
    for (std::size_t v = 0; v < kVectors; ++v) hn::StoreU(sums[p][v], d, all[p] + v * kDenseVector);
  add_halves(all);
  for (std::size_t r = 0; r < kRows; ++r)
    for (std::size_t o = 0; o < kOutputs; ++o)
      out[r * outputs + o] = all[r * kOutputs + o][0] + bias[o];
}

void DenseForward(const RowsOf& x, std::size_t n, const RowsOf& weight, std::span<const float> bias,
                  float* out) {
  constexpr std::size_t kTogether = 4;
  const std::size_t outputs = bias.size(), count = x.count;
  std::size_t s = 0;
  for (; s + kTogether <= n; s += kTogether)
    for (std::size_t o = 0; o < outputs; ++o)
      store_products<kTogether, 1>({x.values + s * count, count},
                                   {weight.values + o * count, count}, &bias[o],
                                   out + s * outputs + o, outputs);
  for (; s < n; ++s) {
    const RowsOf sample{x.values + s * count, count};
    float* const to = out + s * outputs;
    std::size_t o = 0;
    for (; o + kTogether <= outputs; o += kTogether)
      store_products<1, kTogether>(sample, {weight.values + o * count, count}, &bias[o], to + o,
                                   outputs);
    for (; o < outputs; ++o)
      store_products<1, 1>(sample, {weight.values + o * count, count}, &bias[o], to + o, outputs);
  }
}

/// Computes kSums sums over k of factor(k) * row k, in kWidth vectors from `first` on, in the order
/// of k.
template <std::size_t kSums, std::size_t kWidth, class D>
HWY_INLINE void store_sums(D d, const Factors& factors, const RowsOf& rows, std::size_t number,
                           std::size_t first, float* out) {
  hn::Vec<D> sums[kSums][kWidth];
  for (auto& of_sum : sums)
    for (auto& sum : of_sum) sum = hn::Zero(d);
  for (std::size_t k = 0; k < number; ++k) {
    const float* const row = rows.values + k * rows.count + first;
    hn::Vec<D> values[kWidth];
    for (std::size_t v = 0; v < kWidth; ++v) values[v] = hn::LoadU(d, row + v * hn::MaxLanes(d));
    for (std::size_t r = 0; r < kSums; ++r) {
      const auto factor = hn::Set(d, factors.values[k * factors.by_row + r * factors.by_sum]);
      for (std::size_t v = 0; v < kWidth; ++v)
        sums[r][v] = hn::Add(sums[r][v], hn::Mul(factor, values[v]));
    }
  }
  for (std::size_t r = 0; r < kSums; ++r)
    for (std::size_t v = 0; v < kWidth; ++v)
      hn::StoreU(sums[r][v], d, out + r * rows.count + first + v * hn::MaxLanes(d));
}

template <std::size_t kSums>
HWY_INLINE void store_rows(const Factors& factors, const RowsOf& rows, std::size_t number,
                           float* out) {
  constexpr std::size_t kWidth = 2;
  const DenseTag full;
  const hn::CappedTag<float, 1> single;
  std::size_t i = 0;
  for (; i + kWidth * kDenseVector <= rows.count; i += kWidth * kDenseVector)
    store_sums<kSums, kWidth>(full, factors, rows, number, i, out);
  for (; i + kDenseVector <= rows.count; i += kDenseVector)
    store_sums<kSums, 1>(full, factors, rows, number, i, out);
  for (; i < rows.count; ++i) store_sums<kSums, 1>(single, factors, rows, number, i, out);
}

/// Computes out (sums, rows.count) = factors (sums, number) * rows (number, rows.count).
void DenseSums(const Factors& factors, const RowsOf& rows, std::size_t number, std::size_t sums,
               float* out) {
  constexpr std::size_t kTogether = 4;
  std::size_t r = 0;
  const auto from = [&] {
    return Factors{factors.values + r * factors.by_sum, factors.by_row, factors.by_sum};
  };
  for (; r + kTogether <= sums; r += kTogether)
    store_rows<kTogether>(from(), rows, number, out + r * rows.count);
  for (; r < sums; ++r) store_rows<1>(from(), rows, number, out + r * rows.count);
}

}  // namespace eqt::model::precision::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace eqt::model::precision {
namespace {

HWY_EXPORT(DenseForward);
HWY_EXPORT(DenseSums);

}  // namespace

void dense_forward(std::span<const float> x, std::span<const float> weight,
                   std::span<const float> bias, std::span<float> out) {
  const std::size_t outputs = bias.size(), inputs = weight.size() / outputs;
  const std::size_t n = x.size() / inputs;
  EQT_CHECK(out.size() == n * outputs, "{} outputs of {} samples", out.size(), n);
  HWY_DYNAMIC_DISPATCH(DenseForward)
  ({x.data(), inputs}, n, {weight.data(), inputs}, bias, out.data());
}

void dense_backward(std::span<const float> g, std::span<const float> x,
                    std::span<const float> weight, std::size_t outputs, std::span<float> dx,
                    std::span<float> dweight, std::span<float> dbias) {
  const std::size_t inputs = weight.size() / outputs, n = x.size() / inputs;
  EQT_CHECK(g.size() == n * outputs, "{} gradients of {}", g.size(), n);
  std::ranges::fill(dbias, 0.0f);
  if (!dbias.empty())
    for (std::size_t s = 0; s < n; ++s)
      for (std::size_t o = 0; o < outputs; ++o) dbias[o] += g[s * outputs + o];
  if (!dweight.empty()) {
    HWY_DYNAMIC_DISPATCH(DenseSums)
    ({g.data(), outputs, 1}, {x.data(), inputs}, n, outputs, dweight.data());
  }
  if (!dx.empty()) {
    HWY_DYNAMIC_DISPATCH(DenseSums)
    ({g.data(), 1, outputs}, {weight.data(), inputs}, outputs, n, dx.data());
  }
}

}  // namespace eqt::model::precision
#endif
