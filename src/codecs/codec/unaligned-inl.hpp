// SPDX-License-Identifier: Apache-2.0
// Vector loads and stores at any byte address. Included once per vector target, inside the files
// that Highway compiles for each (its "-inl" convention).

#include <hwy/highway.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

// Either both or neither is defined: the guard flips with each target.
#if defined(EQT_CODEC_UNALIGNED_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef EQT_CODEC_UNALIGNED_INL_HPP
#undef EQT_CODEC_UNALIGNED_INL_HPP
#else
#define EQT_CODEC_UNALIGNED_INL_HPP
#endif

HWY_BEFORE_NAMESPACE();
namespace eqt::codec::HWY_NAMESPACE {

template <class D>
HWY_INLINE hwy::HWY_NAMESPACE::Vec<D> load_bytes(D d, const std::byte* from) {
  namespace hn = hwy::HWY_NAMESPACE;
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
HWY_INLINE void store_bytes(hwy::HWY_NAMESPACE::Vec<D> vector, D d, std::byte* to) {
  namespace hn = hwy::HWY_NAMESPACE;
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
