// SPDX-License-Identifier: Apache-2.0
// Masks to bits and back: one bit per value, the first value in the lowest bit of the first byte.
// Included once per vector target, inside the files that Highway compiles for each (its "-inl"
// convention).

#include <hwy/highway.h>

#include <cstddef>
#include <cstdint>

// Either both or neither is defined: the guard flips with each target.
#if defined(EQT_CODEC_BIT_PLANE_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef EQT_CODEC_BIT_PLANE_INL_HPP
#undef EQT_CODEC_BIT_PLANE_INL_HPP
#else
#define EQT_CODEC_BIT_PLANE_INL_HPP
#endif

HWY_BEFORE_NAMESPACE();
namespace eqt::codec::HWY_NAMESPACE {

/// Lanes of a mask that store_masks() takes at once; a whole number of bytes on every target.
template <class D>
constexpr std::size_t mask_group(D d) {
  constexpr std::size_t kByte = 8;
  const std::size_t lanes = hwy::HWY_NAMESPACE::MaxLanes(d);
  return lanes < kByte ? kByte : lanes;
}

/// Writes the bits of mask_group(d) lanes: mask_at(j) is the mask of the lanes from j on.
/// @pre 8 bytes may be written at `to`; only the first mask_group(d) / 8 are meaningful
template <class D, class MaskAt>
HWY_INLINE void store_masks(D d, MaskAt mask_at, std::uint8_t* to) {
  namespace hn = hwy::HWY_NAMESPACE;
  constexpr std::size_t kLanes = hn::MaxLanes(D());
  if constexpr (kLanes >= 8) {
    hn::StoreMaskBits(d, mask_at(0), to);
#if HWY_TARGET == HWY_NEON && HWY_ARCH_ARM_A64
  } else if constexpr (kLanes == 4) {  // one sum for both masks, which Highway does not have
    const hn::RebindToUnsigned<D> du;
    const auto vector_at = [&](std::size_t j) HWY_ATTR {
      return vreinterpretq_u16_u32(hn::VecFromMask(du, hn::RebindMask(du, mask_at(j))).raw);
    };
    const auto lower = vector_at(0), upper = vector_at(4);
    const uint16x8_t own = {1, 2, 4, 8, 16, 32, 64, 128};
    *to = static_cast<std::uint8_t>(vaddvq_u16(vandq_u16(vuzp1q_u16(lower, upper), own)));
#endif
  } else {
    unsigned byte = 0;
    for (std::size_t j = 0; j < 8; j += kLanes) {
      std::uint8_t part[8];
      hn::StoreMaskBits(d, mask_at(j), part);
      byte |= static_cast<unsigned>(part[0]) << j;
    }
    *to = static_cast<std::uint8_t>(byte);
  }
}

/// Lane j of the mask is bit j of `bits`; for vectors of at most 32 lanes of 32 bits.
template <class D>
class BitMask {
 public:
  BitMask() {
    namespace hn = hwy::HWY_NAMESPACE;
    HWY_ALIGN std::uint32_t places[hn::MaxLanes(D())];
    for (std::size_t j = 0; j < hn::MaxLanes(D()); ++j) places[j] = std::uint32_t{1} << j;
    places_ = hn::Load(Words(), places);
  }

  HWY_INLINE hwy::HWY_NAMESPACE::Mask<D> operator()(std::uint32_t bits) const {
    namespace hn = hwy::HWY_NAMESPACE;
    return hn::RebindMask(D(), hn::TestBit(hn::Set(Words(), bits), places_));
  }

 private:
  using Words = hwy::HWY_NAMESPACE::RebindToUnsigned<D>;
  hwy::HWY_NAMESPACE::Vec<Words> places_;
};

}  // namespace eqt::codec::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // guard
