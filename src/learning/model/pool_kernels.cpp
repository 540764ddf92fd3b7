// SPDX-License-Identifier: Apache-2.0
#include "model/pool_kernels.hpp"

#include <algorithm>

#include "core/error.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "model/pool_kernels.cpp"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace eqt::model::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// Calls body(tag, i, left, right) for each vector of the pixels of a row of maxima: its place
/// there, and those of the two pixels above it in a row of the image.
template <class Body>
HWY_INLINE void for_each_window_of(std::size_t count, std::size_t channels, const Body& body) {
  const hn::ScalableTag<float> full;
  const hn::CappedTag<float, 1> single;
  const std::size_t lanes = hn::Lanes(full);
  for (std::size_t pixel = 0; pixel < count; pixel += channels) {
    const std::size_t left = 2 * pixel, right = left + channels;
    std::size_t c = 0;
    for (; c + lanes <= channels; c += lanes) body(full, pixel + c, left + c, right + c);
    for (; c < channels; ++c) body(single, pixel + c, left + c, right + c);
  }
}

void MaxPoolRows(std::span<const float> upper, std::span<const float> lower, std::size_t channels,
                 std::span<float> out, std::span<std::uint8_t> which) {
  const auto windows = [&](auto d, std::size_t i, std::size_t left, std::size_t right) HWY_ATTR {
    const hn::RebindToSigned<decltype(d)> integers;
    const hn::Rebind<std::uint8_t, decltype(d)> bytes;
    auto best = hn::LoadU(d, &upper[left]);
    auto place = hn::Zero(integers);
    const auto take = [&](const float* from, int number) HWY_ATTR {
      const auto x = hn::LoadU(d, from);
      const auto wins = hn::Or(hn::Gt(x, best), hn::IsNaN(x));
      best = hn::IfThenElse(wins, x, best);
      place = hn::IfThenElse(hn::RebindMask(integers, wins), hn::Set(integers, number), place);
    };
    take(&upper[right], 1);
    take(&lower[left], 2);
    take(&lower[right], 3);
    hn::StoreU(best, d, &out[i]);
    hn::StoreU(hn::DemoteTo(bytes, place), bytes, &which[i]);
  };
  for_each_window_of(out.size(), channels, windows);
}

void MaxPoolGradient(std::span<const float> g, std::span<const std::uint8_t> which,
                     std::size_t channels, std::span<float> upper, std::span<float> lower) {
  const auto windows = [&](auto d, std::size_t i, std::size_t left, std::size_t right) HWY_ATTR {
    const hn::RebindToSigned<decltype(d)> integers;
    const hn::Rebind<std::uint8_t, decltype(d)> bytes;
    const auto value = hn::LoadU(d, &g[i]);
    const auto place = hn::PromoteTo(integers, hn::LoadU(bytes, &which[i]));
    const auto put = [&](int number, float* to) HWY_ATTR {
      const auto is_here = hn::RebindMask(d, hn::Eq(place, hn::Set(integers, number)));
      hn::StoreU(hn::IfThenElseZero(is_here, value), d, to);
    };
    put(0, &upper[left]);
    put(1, &upper[right]);
    put(2, &lower[left]);
    put(3, &lower[right]);
  };
  for_each_window_of(g.size(), channels, windows);
  std::ranges::fill(upper.subspan(2 * g.size()), 0.0f);
  std::ranges::fill(lower.subspan(2 * g.size()), 0.0f);
}

}  // namespace eqt::model::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace eqt::model {

HWY_EXPORT(MaxPoolRows);
HWY_EXPORT(MaxPoolGradient);

void max_pool_rows(std::span<const float> upper, std::span<const float> lower, std::size_t channels,
                   std::span<float> out, std::span<std::uint8_t> which) {
  EQT_DCHECK(upper.size() == lower.size() && 2 * out.size() <= upper.size() &&
                 which.size() == out.size() && out.size() % channels == 0,
             "maxima of {} and {} values into {}", upper.size(), lower.size(), out.size());
  HWY_DYNAMIC_DISPATCH(MaxPoolRows)(upper, lower, channels, out, which);
}

void max_pool_gradient(std::span<const float> g, std::span<const std::uint8_t> which,
                       std::size_t channels, std::span<float> upper, std::span<float> lower) {
  EQT_DCHECK(upper.size() == lower.size() && 2 * g.size() <= upper.size() &&
                 which.size() == g.size() && g.size() % channels == 0,
             "gradients of {} maxima for {} and {} values", g.size(), upper.size(), lower.size());
  HWY_DYNAMIC_DISPATCH(MaxPoolGradient)(g, which, channels, upper, lower);
}

}  // namespace eqt::model
#endif
