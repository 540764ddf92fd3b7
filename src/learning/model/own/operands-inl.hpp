// SPDX-License-Identifier: Apache-2.0
// Operands as vectors of floats. Included once per vector target, inside the files that Highway
// compiles for each (its "-inl" convention).

#include <hwy/highway.h>

#include <cstdint>

// Either both or neither is defined: the guard flips with each target.
#if defined(EQT_MODEL_OPERANDS_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef EQT_MODEL_OPERANDS_INL_HPP
#undef EQT_MODEL_OPERANDS_INL_HPP
#else
#define EQT_MODEL_OPERANDS_INL_HPP
#endif

HWY_BEFORE_NAMESPACE();
namespace eqt::model::precision::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// Loads operands as floats.
template <class D>
HWY_INLINE hn::Vec<D> load_operands(D d, const float* from) {
  return hn::LoadU(d, from);
}
template <class D>
HWY_INLINE hn::Vec<D> load_operands(D d, const std::int8_t* from) {
  const hn::RebindToSigned<D> integers;
  const hn::Rebind<std::int8_t, D> bytes;
  return hn::ConvertTo(d, hn::PromoteTo(integers, hn::LoadU(bytes, from)));
}

/// Stores floats that are operands.
template <class D>
HWY_INLINE void store_operands(D d, hn::Vec<D> values, float* to) {
  hn::StoreU(values, d, to);
}
template <class D>
HWY_INLINE void store_operands(D /*d*/, hn::Vec<D> values, std::int8_t* to) {
  const hn::RebindToSigned<D> integers;
  const hn::Rebind<std::int8_t, D> bytes;
  hn::StoreU(hn::DemoteTo(bytes, hn::ConvertTo(integers, values)), bytes, to);
}

}  // namespace eqt::model::precision::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // guard
