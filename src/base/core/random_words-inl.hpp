// SPDX-License-Identifier: Apache-2.0
// RandomStream's words for vectors of indices. Included once per vector target, inside the files
// that Highway compiles for each (its "-inl" convention).

#include <hwy/highway.h>

#include <cstdint>

// Either both or neither is defined: the guard flips with each target.
#if defined(EQT_CORE_RANDOM_WORDS_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef EQT_CORE_RANDOM_WORDS_INL_HPP
#undef EQT_CORE_RANDOM_WORDS_INL_HPP
#else
#define EQT_CORE_RANDOM_WORDS_INL_HPP
#endif

HWY_BEFORE_NAMESPACE();
namespace eqt::HWY_NAMESPACE {

constexpr std::uint32_t kRandomIndexFactor = 0x9E3779B1u;

/// RandomStream::product() of a vector of indices. `scaled` is index * kRandomIndexFactor +
/// RandomStream::first(); `second` is RandomStream::second().
template <class D>
HWY_INLINE hwy::HWY_NAMESPACE::Vec<D> random_products(D du, hwy::HWY_NAMESPACE::Vec<D> scaled,
                                                      std::uint32_t second) {
  namespace hn = hwy::HWY_NAMESPACE;
  auto h = hn::Mul(hn::Xor(scaled, hn::ShiftRight<16>(scaled)), hn::Set(du, 0x21F0AAADu));
  h = hn::Add(hn::Xor(h, hn::ShiftRight<15>(h)), hn::Set(du, second));
  return hn::Mul(h, hn::Set(du, 0xD35A2D97u));
}

/// RandomStream::bits() of the same indices.
template <class D>
HWY_INLINE hwy::HWY_NAMESPACE::Vec<D> random_words(D du, hwy::HWY_NAMESPACE::Vec<D> scaled,
                                                   std::uint32_t second) {
  namespace hn = hwy::HWY_NAMESPACE;
  const auto h = random_products(du, scaled, second);
  return hn::Xor(h, hn::ShiftRight<15>(h));
}

}  // namespace eqt::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // guard
