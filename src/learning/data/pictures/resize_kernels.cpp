// SPDX-License-Identifier: Apache-2.0
// The sums over rows and columns of a resized picture, for every instruction set. No multiply-add
// is fused, so all of them give the same bits.

#include "data/pictures/resize.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "data/pictures/resize_kernels.cpp"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace eqt::data::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// line[x] = the sum over k of weights[k] rows[k stride + x], from x on, as many as the tag's
/// lanes.
template <class D>
HWY_INLINE void add_lanes(D d, const std::uint8_t* rows, std::size_t stride, const float* weights,
                          std::size_t count, std::size_t x, float* line) {
  const hn::Rebind<std::uint8_t, D> bytes;
  const hn::RebindToSigned<D> words;
  auto sum = hn::Zero(d);
  for (std::size_t k = 0; k < count; ++k) {
    const auto value =
        hn::ConvertTo(d, hn::PromoteTo(words, hn::LoadU(bytes, rows + k * stride + x)));
    sum = hn::Add(sum, hn::Mul(hn::Set(d, weights[k]), value));
  }
  hn::StoreU(sum, d, line + x);
}

void AddRows(const std::uint8_t* rows, std::size_t stride, const float* weights, std::size_t count,
             std::size_t values, float* line) {
  const hn::ScalableTag<float> full;
  const hn::CappedTag<float, 1> single;
  const std::size_t lanes = hn::Lanes(full);
  std::size_t x = 0;
  for (; x + lanes <= values; x += lanes) add_lanes(full, rows, stride, weights, count, x, line);
  for (; x < values; ++x) add_lanes(single, rows, stride, weights, count, x, line);
}

/// A pixel's three channels are the first of four lanes, where there are four, so one float beyond
/// the line is read.
void AddColumns3(const float* line, const int* first, const float* weights, std::size_t most,
                 std::size_t outputs, std::ptrdiff_t step, std::uint8_t* out) {
  const hn::CappedTag<float, 4> d;
  const hn::RebindToSigned<decltype(d)> words;
  const auto zero = hn::Zero(d), white = hn::Set(d, 255.0f), half = hn::Set(d, 0.5f);
  alignas(16) std::int32_t rounded[4];
  for (std::size_t i = 0; i < outputs; ++i, weights += most, out += step) {
    const float* const from = line + 3 * first[i];
    for (std::size_t c = 0; c < 3; c += hn::Lanes(d)) {
      auto sum = zero;
      for (std::size_t k = 0; k < most; ++k)
        sum = hn::Add(sum, hn::Mul(hn::Set(d, weights[k]), hn::LoadU(d, from + 3 * k + c)));
      sum = hn::Min(hn::Max(sum, zero), white);
      hn::StoreU(hn::ConvertTo(words, hn::Add(sum, half)), words, rounded + c);
    }
    for (int c = 0; c < 3; ++c) out[c] = static_cast<std::uint8_t>(rounded[c]);
  }
}

}  // namespace eqt::data::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace eqt::data {

HWY_EXPORT(AddRows);
HWY_EXPORT(AddColumns3);

void add_rows(const std::uint8_t* rows, std::size_t stride, std::span<const float> weights,
              std::span<float> line) {
  HWY_DYNAMIC_DISPATCH(AddRows)
  (rows, stride, weights.data(), weights.size(), line.size(), line.data());
}

void add_columns3(const float* line, const Taps& taps, std::ptrdiff_t step, std::uint8_t* out) {
  HWY_DYNAMIC_DISPATCH(AddColumns3)
  (line, taps.first.data(), taps.weights.data(), static_cast<std::size_t>(taps.most),
   taps.first.size(), step, out);
}

}  // namespace eqt::data
#endif
