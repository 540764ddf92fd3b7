// SPDX-License-Identifier: Apache-2.0
// A walk over values in whole vectors. Included once per vector target, inside the files that
// Highway compiles for each (its "-inl" convention).

#include <hwy/highway.h>

#include <cstddef>

// Either both or neither is defined: the guard flips with each target.
#if defined(EQT_MODEL_VECTORS_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef EQT_MODEL_VECTORS_INL_HPP
#undef EQT_MODEL_VECTORS_INL_HPP
#else
#define EQT_MODEL_VECTORS_INL_HPP
#endif

HWY_BEFORE_NAMESPACE();
namespace eqt::model::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// Calls body(tag of floats, i) for each vector of `count` values, and for single ones at the end.
template <class Body>
HWY_INLINE void for_each_vector(std::size_t count, const Body& body) {
  const hn::ScalableTag<float> full;
  const hn::CappedTag<float, 1> single;
  const std::size_t lanes = hn::Lanes(full);
  std::size_t i = 0;
  for (; i + lanes <= count; i += lanes) body(full, i);
  for (; i < count; ++i) body(single, i);
}

}  // namespace eqt::model::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // guard
