// SPDX-License-Identifier: Apache-2.0
// The vectors of kernels, and their loads and stores at any byte address. Included once per vector
// target, inside the files that Highway compiles for each (its "-inl" convention).

#include <hwy/highway.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

// Either both or neither is defined: the guard flips with each target.
#if defined(EQT_CODEC_VECTORS_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef EQT_CODEC_VECTORS_INL_HPP
#undef EQT_CODEC_VECTORS_INL_HPP
#else
#define EQT_CODEC_VECTORS_INL_HPP
#endif

HWY_BEFORE_NAMESPACE();
namespace eqt::codec::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using F32 = hn::ScalableTag<float>;
using U32 = hn::ScalableTag<std::uint32_t>;
using I32 = hn::ScalableTag<std::int32_t>;
constexpr std::size_t kLanes = hn::MaxLanes(F32());

template <class D>
HWY_INLINE hn::Vec<D> load_bytes(D d, const std::byte* from) {
#if HWY_TARGET == HWY_SCALAR  // has no vectors of bytes
  hn::TFromD<D> value;
  std::memcpy(&value, from, sizeof(value));
  return hn::Set(d, value);
#else
  const hn::Repartition<std::uint8_t, D> bytes;
  return hn::BitCast(d, hn::LoadU(bytes, reinterpret_cast<const std::uint8_t*>(from)));
#endif
}

template <class D>
HWY_INLINE void store_bytes(hn::Vec<D> vector, D d, std::byte* to) {
  static_cast<void>(d);
#if HWY_TARGET == HWY_SCALAR
  const hn::TFromD<D> value = hn::GetLane(vector);
  std::memcpy(to, &value, sizeof(value));
#else
  const hn::Repartition<std::uint8_t, D> bytes;
  hn::StoreU(hn::BitCast(bytes, vector), bytes, reinterpret_cast<std::uint8_t*>(to));
#endif
}

}  // namespace eqt::codec::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // guard
