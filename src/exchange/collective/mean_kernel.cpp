// SPDX-License-Identifier: Apache-2.0
#include "collective/mean_kernel.hpp"

#include <cstddef>
#include <cstdint>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "collective/mean_kernel.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>
// After foreach_target.
#include <hwy/cache_control.h>

HWY_BEFORE_NAMESPACE();
namespace eqt::collective::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

float mean_at(const float* const* rows, std::size_t count, float share, std::size_t i) {
  float sum = rows[0][i];
  for (std::size_t r = 1; r < count; ++r) sum += rows[r][i];
  return sum * share;
}

template <class Store>
HWY_INLINE void mean_by(const float* const* rows, std::size_t count, float share, float* mean,
                        std::size_t size, const Store& store) {
  const hn::ScalableTag<float> d;
  const std::size_t lanes = hn::Lanes(d);
  std::size_t i = 0;
  // Writing past the caches needs whole vectors.
  while (i < size && reinterpret_cast<std::uintptr_t>(mean + i) % (lanes * sizeof(float)) != 0) {
    mean[i] = mean_at(rows, count, share, i);
    ++i;
  }
  const auto factor = hn::Set(d, share);
  for (; i + 2 * lanes <= size; i += 2 * lanes) {
    auto a = hn::LoadU(d, rows[0] + i), b = hn::LoadU(d, rows[0] + i + lanes);
    for (std::size_t r = 1; r < count; ++r) {
      a = hn::Add(a, hn::LoadU(d, rows[r] + i));
      b = hn::Add(b, hn::LoadU(d, rows[r] + i + lanes));
    }
    store(hn::Mul(a, factor), mean + i);
    store(hn::Mul(b, factor), mean + i + lanes);
  }
  for (; i < size; ++i) mean[i] = mean_at(rows, count, share, i);
}

void mean_of_rows_on_target(const float* const* rows, std::size_t count, float share, float* mean,
                            std::size_t size, bool cached) {
  const hn::ScalableTag<float> d;
  using V = hn::Vec<decltype(d)>;
  if (cached) {
    mean_by(rows, count, share, mean, size, [d](V v, float* to) HWY_ATTR { hn::Store(v, d, to); });
  } else {
    mean_by(rows, count, share, mean, size, [d](V v, float* to) HWY_ATTR { hn::Stream(v, d, to); });
    hwy::FlushStream();
  }
}

}  // namespace
}  // namespace eqt::collective::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace eqt::collective {
namespace {
HWY_EXPORT(mean_of_rows_on_target);
}  // namespace

void mean_of_rows(std::span<const float* const> rows, float share, std::span<float> mean,
                  std::size_t all) {
  HWY_DYNAMIC_DISPATCH(mean_of_rows_on_target)
  (rows.data(), rows.size(), share, mean.data(), mean.size(), all <= kMostCachedValues);
}

}  // namespace eqt::collective
#endif
