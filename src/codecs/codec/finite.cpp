// SPDX-License-Identifier: Apache-2.0
#include "codec/finite.hpp"

#include <cmath>

#include "core/error.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "codec/finite.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace eqt::codec::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

std::size_t find_non_finite(const float* HWY_RESTRICT values, std::size_t count) {
  const hn::ScalableTag<float> df;
  const hn::RebindToSigned<decltype(df)> di;
  const std::size_t lanes = hn::Lanes(df);
  const auto magnitude_bits = hn::Set(di, 0x7FFFFFFF);
  const auto largest_finite = hn::Set(di, kLargestFiniteBits);
  const auto magnitude = [&](std::size_t i) HWY_ATTR {
    return hn::And(hn::BitCast(di, hn::LoadU(df, values + i)), magnitude_bits);
  };
  std::size_t i = 0;
  for (; i + 4 * lanes <= count; i += 4 * lanes) {
    const auto largest = hn::Max(hn::Max(magnitude(i), magnitude(i + lanes)),
                                 hn::Max(magnitude(i + 2 * lanes), magnitude(i + 3 * lanes)));
    if (!hn::AllFalse(di, hn::Gt(largest, largest_finite))) break;
  }
  while (i < count && std::isfinite(values[i])) ++i;
  return i;
}

}  // namespace
}  // namespace eqt::codec::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace eqt::codec {
namespace {
HWY_EXPORT(find_non_finite);
}  // namespace

std::size_t first_non_finite(std::span<const float> values) {
  return HWY_DYNAMIC_DISPATCH(find_non_finite)(values.data(), values.size());
}

void require_finite(std::string_view compressor, std::span<const float> values) {
  const std::size_t i = first_non_finite(values);
  if (i == values.size()) return;
  fail(Kind::diverged,
       "compressor {}: expected finite values, found {} at index {} of {}; training has diverged, "
       "try a lower optimizer.learning_rate or schedule.warmup_epochs",
       compressor, values[i], i, values.size());
}

}  // namespace eqt::codec
#endif  // HWY_ONCE
