// SPDX-License-Identifier: Apache-2.0
// Moves the lanes of a mask to the front. Included once per vector target, inside the files that
// Highway compiles for each.

#include <hwy/highway.h>

#include <array>
#include <cstddef>
#include <cstdint>

// Either both or neither is defined: the guard flips with each target.
#if defined(EQT_CODEC_PACK_LANES_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef EQT_CODEC_PACK_LANES_INL_HPP
#undef EQT_CODEC_PACK_LANES_INL_HPP
#else
#define EQT_CODEC_PACK_LANES_INL_HPP
#endif

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

}  // namespace eqt::codec::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // guard
