// SPDX-License-Identifier: Apache-2.0
#include "codec/sparse/compact.hpp"

#include <algorithm>
#include <array>

#include "core/error.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "codec/sparse/compact.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace eqt::codec::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// Row `bits`: the lanes whose bit is set, in order; of 4 lanes, their bytes.
template <std::size_t kLanes>
constexpr auto lane_orders() {
  constexpr std::size_t kMasks = kLanes <= 8 ? std::size_t{1} << kLanes : 1;
  constexpr std::size_t kBytes = kLanes == 4 ? 4 : 1;  // of a lane
  std::array<std::array<std::uint8_t, kLanes * kBytes>, kMasks> orders{};
  for (std::size_t bits = 0; bits < kMasks; ++bits) {
    std::size_t n = 0;
    for (std::size_t byte = 0; byte < kLanes * kBytes; ++byte)
      if ((bits >> byte / kBytes & 1) != 0) orders[bits][n++] = static_cast<std::uint8_t>(byte);
  }
  return orders;
}

/// Packs lanes of vectors of 32-bit lanes, several of them by the same mask. It does what
/// hn::Compress does, which Highway 1.0.3 compiles to a copy of its whole table in each call where
/// the processor has no instruction for it.
class PackLanes {
  using D = hn::ScalableTag<std::uint32_t>;

 public:
  template <class M>
  explicit HWY_INLINE PackLanes(M mask) : mask_(hn::RebindMask(D(), mask)) {
    if constexpr (kByTable) {
      std::uint8_t bits[8];
      hn::StoreMaskBits(D(), mask_, bits);
      bits_ = bits[0];
    }
  }

  HWY_INLINE std::size_t count() const {
    return kByTable ? hwy::PopCount(bits_) : hn::CountTrue(D(), mask_);
  }

  /// The lanes after the first count() are of no meaning.
  template <class DV>
  HWY_INLINE hn::Vec<DV> operator()(DV d, hn::Vec<DV> v) const {
    if constexpr (kLanes == 8) {
      const hn::Rebind<std::uint8_t, D> d8;
      const auto lanes = hn::PromoteTo(D(), hn::LoadU(d8, kOrders[bits_].data()));
      return hn::TableLookupLanes(v, hn::IndicesFromVec(d, lanes));
    } else if constexpr (kLanes == 4) {
      const hn::Repartition<std::uint8_t, DV> d8;
      const auto bytes = hn::LoadU(d8, kOrders[bits_].data());
      return hn::BitCast(d, hn::TableLookupBytes(hn::BitCast(d8, v), bytes));
    } else {
      return hn::Compress(v, hn::RebindMask(d, mask_));
    }
  }

 private:
  static constexpr std::size_t kLanes = hn::MaxLanes(D());
  static constexpr bool kByTable = kLanes == 4 || kLanes == 8;
  static constexpr auto kOrders = lane_orders<kLanes>();

  hn::Mask<D> mask_;
  std::size_t bits_ = 0;
};

namespace {

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
