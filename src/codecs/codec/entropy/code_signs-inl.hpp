// SPDX-License-Identifier: Apache-2.0
// The bits of 64 level codes: nonzero indices, and signs. Included once per vector target, inside
// the files that Highway compiles for each.

#include <hwy/highway.h>

#include <bit>
#include <cstddef>
#include <cstdint>

#include "codec/entropy/byte_moves.hpp"
#include "codec/levels/level_table.hpp"

// Either both or neither is defined: the guard flips with each target.
#if defined(EQT_CODEC_CODE_SIGNS_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef EQT_CODEC_CODE_SIGNS_INL_HPP
#undef EQT_CODEC_CODE_SIGNS_INL_HPP
#else
#define EQT_CODEC_CODE_SIGNS_INL_HPP
#endif

HWY_BEFORE_NAMESPACE();
namespace eqt::codec::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

#if HWY_TARGET == HWY_SCALAR  // has no vectors of bytes

// Bit k: whether codes[k] has a nonzero index.
HWY_INLINE std::uint64_t Nonzeros(const std::uint8_t* codes) {
  std::uint64_t nonzero = 0;
  for (std::size_t k = 0; k < 64; ++k) nonzero |= std::uint64_t{(codes[k] & 0x7Fu) != 0} << k;
  return nonzero;
}
// Bit k: whether codes[k] has a sign.
HWY_INLINE std::uint64_t Negatives(const std::uint8_t* codes) {
  std::uint64_t negative = 0;
  for (std::size_t k = 0; k < 64; ++k) negative |= std::uint64_t{codes[k] >> 7} << k;
  return negative;
}

#else

using U8 = hn::CappedTag<std::uint8_t, 64>;
constexpr std::size_t kBytes = hn::MaxLanes(U8());

// Bit k: mask_at(j) of the vector that begins with code j, for 64 codes.
template <typename MaskAt>
HWY_INLINE std::uint64_t BitsOf(const MaskAt& mask_at) {
  const U8 d;
#if HWY_TARGET == HWY_NEON && HWY_ARCH_ARM_A64
  // One tree of sums for all, which Highway does not have.
  const auto own = vreinterpretq_u8_u64(vdupq_n_u64(0x8040201008040201u));
  const auto bits_at = [&](std::size_t k)
                           HWY_ATTR { return vandq_u8(hn::VecFromMask(d, mask_at(k)).raw, own); };
  const auto lower = vpaddq_u8(bits_at(0), bits_at(16)),
             upper = vpaddq_u8(bits_at(32), bits_at(48));
  const auto fours = vpaddq_u8(lower, upper);
  return vgetq_lane_u64(vreinterpretq_u64_u8(vpaddq_u8(fours, fours)), 0);
#else
  // Joined in registers: a load of bytes that were stored in parts is slow.
  std::uint64_t all = 0;
  for (std::size_t k = 0; k < 64; k += kBytes) {
    std::uint64_t bits = 0;
    hn::StoreMaskBits(d, mask_at(k), reinterpret_cast<std::uint8_t*>(&bits));
    all |= bits << k;
  }
  return all;
#endif
}

// Bit k: whether codes[k] has a nonzero index.
HWY_INLINE std::uint64_t Nonzeros(const std::uint8_t* codes) {
  const U8 d;
  const auto index_mask = hn::Set(d, std::uint8_t{0x7F});
  return BitsOf([&](std::size_t k) HWY_ATTR {
    return hn::Ne(hn::And(hn::LoadU(d, codes + k), index_mask), hn::Zero(d));
  });
}

// Bit k: whether codes[k] has a sign.
HWY_INLINE std::uint64_t Negatives(const std::uint8_t* codes) {
  const U8 d;
  const auto index_mask = hn::Set(d, std::uint8_t{0x7F});
  return BitsOf([&](std::size_t k)
                    HWY_ATTR { return hn::Gt(hn::LoadU(d, codes + k), index_mask); });
}

#endif

// SignsOf(): the signs of the nonzero codes, first one in the lowest bit. SetSigns(), the inverse,
// gives the nonzero codes their signs.
#if HWY_ARCH_X86_64 && HWY_TARGET <= HWY_AVX2

HWY_INLINE std::uint64_t SignsOf(const std::uint8_t* codes, std::uint64_t nonzero) {
  return _pext_u64(Negatives(codes), nonzero);
}

HWY_INLINE void SetSigns(std::uint64_t signs, std::uint64_t nonzero, std::uint8_t* codes) {
  const std::uint64_t negative = _pdep_u64(signs, nonzero);
#if HWY_TARGET <= HWY_AVX3
  const __m512i code = _mm512_loadu_si512(codes);
  const __m512i sign = _mm512_maskz_set1_epi8(negative, static_cast<char>(kSignCode));
  _mm512_storeu_si512(codes, _mm512_or_si512(code, sign));
#else
  // Copies of the bits' bytes; copy k keeps bit k of its byte.
  const __m256i copies =
      _mm256_setr_epi64x(0, 0x0101010101010101, 0x0202020202020202, 0x0303030303030303);
  const __m256i own = _mm256_set1_epi64x(static_cast<std::int64_t>(0x8040201008040201u));
  for (int k = 0; k < 64; k += 32) {
    auto* const to = reinterpret_cast<__m256i*>(codes + k);
    const __m256i bits = _mm256_set1_epi32(static_cast<int>(negative >> k));
    const __m256i bit = _mm256_and_si256(_mm256_shuffle_epi8(bits, copies), own);
    const __m256i sign = _mm256_and_si256(_mm256_cmpeq_epi8(bit, own),
                                          _mm256_set1_epi8(static_cast<char>(kSignCode)));
    _mm256_storeu_si256(to, _mm256_or_si256(_mm256_loadu_si256(to), sign));
  }
#endif
}

#elif HWY_TARGET != HWY_SCALAR

using EightBytes = hn::CappedTag<std::uint8_t, 8>;

HWY_INLINE std::uint64_t SignsOf(const std::uint8_t* codes, std::uint64_t nonzero) {
  const EightBytes d;
  alignas(16) std::uint8_t packed[64 + 8] = {};
  std::size_t n = 0;
  for (std::size_t k = 0; k < 64; k += 8) {
    const std::size_t mask = nonzero >> k & 0xFF;
    const auto order = hn::Load(d, kPackedToFront[mask].data());
    hn::StoreU(hn::TableLookupBytes(hn::LoadU(d, codes + k), order), d, packed + n);
    n += kBitCount[mask];
  }
  const std::uint64_t behind = n == 64 ? 0 : ~std::uint64_t{0} << n;
  return Negatives(packed) & ~behind;
}

HWY_INLINE void SetSigns(std::uint64_t signs, std::uint64_t nonzero, std::uint8_t* codes) {
  const EightBytes d;
  for (std::size_t k = 0; k < 64; k += 8) {
    const std::size_t mask = nonzero >> k & 0xFF;
    const auto own = hn::Load(d, kRankBits[mask].data());
    const auto bit = hn::And(hn::Set(d, static_cast<std::uint8_t>(signs)), own);
    const auto negative = hn::VecFromMask(d, hn::Ne(bit, hn::Zero(d)));
    const auto sign = hn::And(negative, hn::Set(d, kSignCode));
    hn::StoreU(hn::Or(hn::LoadU(d, codes + k), sign), d, codes + k);
    signs >>= kBitCount[mask];
  }
}

#else

HWY_INLINE std::uint64_t SignsOf(const std::uint8_t* codes, std::uint64_t nonzero) {
  const std::uint64_t negative = Negatives(codes);
  std::uint64_t signs = 0;
  for (int k = 0; nonzero != 0; nonzero &= nonzero - 1, ++k) {
    signs |= (negative >> std::countr_zero(nonzero) & 1) << k;
  }
  return signs;
}

HWY_INLINE void SetSigns(std::uint64_t signs, std::uint64_t nonzero, std::uint8_t* codes) {
  for (; nonzero != 0; nonzero &= nonzero - 1, signs >>= 1) {
    if ((signs & 1) != 0) codes[std::countr_zero(nonzero)] |= kSignCode;
  }
}

#endif

}  // namespace eqt::codec::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // guard
