// SPDX-License-Identifier: Apache-2.0
#include "codec/sparse/compact.hpp"

#include <algorithm>

#include "core/error.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "codec/sparse/compact.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "codec/sparse/pack_lanes-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace eqt::codec::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

/// Writes the values that are at least the bound, and their indices from index_vector(j) and
/// index_of(j). Input and output may overlap: each vector is read before anything is written at its
/// position or after it.
template <class IndexVector, class Index>
HWY_INLINE Compacted compact_with(const float* values, std::size_t count, std::uint32_t bound,
                                  IndexVector index_vector, Index index_of, std::uint32_t* indices,
                                  float* kept) {
  const hn::ScalableTag<float> df;
  const hn::RebindToSigned<decltype(df)> di;
  const hn::RebindToUnsigned<decltype(df)> du;
  const std::size_t lanes = hn::Lanes(df);
  const auto magnitude_mask = hn::Set(di, 0x7FFFFFFF);
  const auto below = hn::Set(di, static_cast<std::int32_t>(bound) - 1);
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
      const auto index = index_vector(du, j);
      const auto value = hn::LoadU(df, values + j);
      // Not CompressStore, whose instruction is slow (microcoded) on some processors.
      const PackLanes pack(keep);
      hn::StoreU(pack(du, index), du, indices + n);
      hn::StoreU(pack(df, value), df, kept + n);
      n += pack.count();
    }
  }
  auto maximum = static_cast<std::uint32_t>(hn::GetLane(hn::MaxOfLanes(di, largest)));
  for (; i < count; ++i) {
    const float value = values[i];
    const std::uint32_t index = index_of(i);
    const std::uint32_t bits = magnitude_bits(value);
    maximum = std::max(maximum, bits);
    indices[n] = index;
    kept[n] = value;
    n += static_cast<std::size_t>(bits >= bound);
  }
  return {n, maximum};
}

Compacted compact(const float* values, std::size_t count, std::uint32_t bound,
                  std::uint32_t* indices, float* kept) {
  const hn::ScalableTag<std::uint32_t> du;
  const auto lane = hn::Iota(du, 0);
  return compact_with(
      values, count, bound,
      [lane](auto d, std::size_t i)
          HWY_ATTR { return hn::Add(lane, hn::Set(d, static_cast<std::uint32_t>(i))); },
      [](std::size_t i) { return static_cast<std::uint32_t>(i); }, indices, kept);
}

std::size_t keep_in_place(float* values, std::uint32_t* indices, std::size_t count,
                          std::uint32_t bound) {
  return compact_with(
             values, count, bound,
             [indices](auto d, std::size_t i) HWY_ATTR { return hn::LoadU(d, indices + i); },
             [indices](std::size_t i) { return indices[i]; }, indices, values)
      .count;
}

}  // namespace
}  // namespace eqt::codec::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace eqt::codec {
namespace {
HWY_EXPORT(compact);
HWY_EXPORT(keep_in_place);
}  // namespace

Compacted compact_at_least(std::span<const float> values, std::uint32_t bound,
                           std::uint32_t* indices, float* kept) {
  return HWY_DYNAMIC_DISPATCH(compact)(values.data(), values.size(), bound, indices, kept);
}

std::size_t keep_at_least(std::span<float> values, std::span<std::uint32_t> indices,
                          std::uint32_t bound) {
  EQT_DCHECK(values.size() == indices.size(), "{} values, {} indices", values.size(),
             indices.size());
  return HWY_DYNAMIC_DISPATCH(keep_in_place)(values.data(), indices.data(), values.size(), bound);
}

}  // namespace eqt::codec
#endif  // HWY_ONCE
