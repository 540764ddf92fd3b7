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
/// RandomStream::first(); `second` is RandomStream::second(), `multiplier` its multiplier().
template <class D>
HWY_INLINE hwy::HWY_NAMESPACE::Vec<D> random_products(D du, hwy::HWY_NAMESPACE::Vec<D> scaled,
                                                      std::uint32_t second,
                                                      std::uint32_t multiplier = 0xD35A2D97u) {
  namespace hn = hwy::HWY_NAMESPACE;
  auto h = hn::Mul(hn::Xor(scaled, hn::ShiftRight<16>(scaled)), hn::Set(du, 0x21F0AAADu));
  h = hn::Add(hn::Xor(h, hn::ShiftRight<15>(h)), hn::Set(du, second));
  return hn::Mul(h, hn::Set(du, multiplier));
}

/// RandomStream::stratified() of vectors. `factor` is Strata::factor().
template <class D>
HWY_INLINE hwy::HWY_NAMESPACE::Vec<D> stratified_words(D du, hwy::HWY_NAMESPACE::Vec<D> products,
                                                       hwy::HWY_NAMESPACE::Vec<D> bases,
                                                       std::uint32_t factor) {
  namespace hn = hwy::HWY_NAMESPACE;
#if HWY_TARGET == HWY_SCALAR  // has no vectors of halves
  const auto low = hn::Set(du, 0xFFFFu);
  const auto upper =
      hn::ShiftRight<16>(hn::Mul(hn::ShiftRight<16>(products), hn::Set(du, factor >> 16)));
  const auto lower =
      hn::ShiftRight<16>(hn::Mul(hn::And(products, low), hn::Set(du, factor & 0xFFFFu)));
  return hn::Add(bases, hn::Or(hn::ShiftLeft<16>(upper), lower));
#else
  const hn::Repartition<std::uint16_t, D> halves;
  const auto within =
      hn::MulHigh(hn::BitCast(halves, products), hn::BitCast(halves, hn::Set(du, factor)));
  return hn::Add(bases, hn::BitCast(du, within));
#endif
}

/// The complement of the words whose values are negative.
template <class D, class V>
HWY_INLINE hwy::HWY_NAMESPACE::Vec<D> complement_if_negative(D du, hwy::HWY_NAMESPACE::Vec<D> words,
                                                             V values) {
  namespace hn = hwy::HWY_NAMESPACE;
  const hn::RebindToSigned<D> di;
  return hn::Xor(words, hn::BitCast(du, hn::ShiftRight<31>(hn::BitCast(di, values))));
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
