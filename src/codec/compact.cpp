#include "codec/compact.hpp"

#include <algorithm>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "codec/compact.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace eqt::codec::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

Compacted compact(const float* HWY_RESTRICT values, std::size_t count, std::uint32_t bound,
                  std::uint32_t* HWY_RESTRICT indices, float* HWY_RESTRICT kept) {
  const hn::ScalableTag<float> df;
  const hn::RebindToSigned<decltype(df)> di;
  const hn::RebindToUnsigned<decltype(df)> du;
  const std::size_t lanes = hn::Lanes(df);
  const auto magnitude_mask = hn::Set(di, 0x7FFFFFFF);
  const auto below = hn::Set(di, static_cast<std::int32_t>(bound) - 1);
  const auto lane = hn::Iota(du, 0);
  const auto magnitude = [&](std::size_t i) HWY_ATTR {
    return hn::And(hn::BitCast(di, hn::LoadU(df, values + i)), magnitude_mask);
  };
  auto largest = hn::Zero(di);
  std::size_t n = 0;
  std::size_t i = 0;
  for (; i + 4 * lanes <= count; i += 4 * lanes) {
    const auto group = hn::Max(hn::Max(magnitude(i), magnitude(i + lanes)),
                               hn::Max(magnitude(i + 2 * lanes), magnitude(i + 3 * lanes)));
    largest = hn::Max(largest, group);
    // Few values are kept, so most groups of four vectors hold none.
    if (hn::AllFalse(di, hn::Gt(group, below))) continue;
    for (std::size_t j = i; j < i + 4 * lanes; j += lanes) {
      const auto keep = hn::Gt(magnitude(j), below);
      const auto index = hn::Add(lane, hn::Set(du, static_cast<std::uint32_t>(j)));
      // Not CompressStore, whose instruction is microcoded on some processors.
      hn::StoreU(hn::Compress(index, hn::RebindMask(du, keep)), du, indices + n);
      hn::StoreU(hn::Compress(hn::LoadU(df, values + j), hn::RebindMask(df, keep)), df, kept + n);
      n += hn::CountTrue(di, keep);
    }
  }
  auto maximum = static_cast<std::uint32_t>(hn::GetLane(hn::MaxOfLanes(di, largest)));
  for (; i < count; ++i) {
    const std::uint32_t bits = magnitude_bits(values[i]);
    maximum = std::max(maximum, bits);
    indices[n] = static_cast<std::uint32_t>(i);
    kept[n] = values[i];
    n += static_cast<std::size_t>(bits >= bound);
  }
  return {n, maximum};
}

}  // namespace
}  // namespace eqt::codec::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace eqt::codec {
namespace {
HWY_EXPORT(compact);
}  // namespace

Compacted compact_at_least(std::span<const float> values, std::uint32_t bound,
                           std::uint32_t* indices, float* kept) {
  return HWY_DYNAMIC_DISPATCH(compact)(values.data(), values.size(), bound, indices, kept);
}

}  // namespace eqt::codec
#endif  // HWY_ONCE
