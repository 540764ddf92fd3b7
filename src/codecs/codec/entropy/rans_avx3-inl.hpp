// SPDX-License-Identifier: Apache-2.0
// Steps of rANS for AVX-512 with permutations of bytes. Included once per vector target, inside the
// files that Highway compiles for each.

#include <hwy/highway.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "codec/entropy/rans_kernels.hpp"
#include "codec/entropy/rans_plain-inl.hpp"

// Either both or neither is defined: the guard flips with each target.
#if defined(EQT_CODEC_RANS_AVX3_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef EQT_CODEC_RANS_AVX3_INL_HPP
#undef EQT_CODEC_RANS_AVX3_INL_HPP
#else
#define EQT_CODEC_RANS_AVX3_INL_HPP
#endif

#if HWY_ARCH_X86_64 && HWY_TARGET <= HWY_AVX3_DL
HWY_BEFORE_NAMESPACE();
namespace eqt::codec::HWY_NAMESPACE {
namespace {

constexpr std::size_t kVectors = kRansLanes / 16;

std::byte* EncodeSteps(const RansEncoderTables& t, const std::uint8_t* codes, std::size_t steps,
                       std::uint32_t* states, std::byte* at) {
  const __m512i limits = _mm512_load_si512(t.limit.data());
  const __m512i reciprocals = _mm512_load_si512(t.reciprocal32.data());
  const __m512i biases = _mm512_load_si512(t.bias.data());
  const __m512i complements = _mm512_load_si512(t.complement.data());
  const __m512i index_mask = _mm512_set1_epi32(0x7F);
  __m512i state[kVectors];
  for (std::size_t v = 0; v < kVectors; ++v) state[v] = _mm512_loadu_si512(states + 16 * v);
  for (std::size_t s = steps; s-- > 0;) {
    for (std::size_t v = kVectors; v-- > 0;) {
      const auto* from = reinterpret_cast<const __m128i*>(codes + s * kRansLanes + 16 * v);
      const __m512i index =
          _mm512_and_si512(_mm512_cvtepu8_epi32(_mm_loadu_si128(from)), index_mask);
      const __mmask16 full =
          _mm512_cmpge_epu32_mask(state[v], _mm512_permutexvar_epi32(index, limits));
      const __m128i low = _mm512_cvtepi32_epi8(_mm512_maskz_compress_epi32(full, state[v]));
      const unsigned count = static_cast<unsigned>(__builtin_popcount(full));
      at -= count;
      _mm_mask_storeu_epi8(at, static_cast<__mmask16>((1u << count) - 1), low);
      const __m512i x = _mm512_mask_srli_epi32(state[v], full, state[v], 8);
      const __m512i reciprocal = _mm512_permutexvar_epi32(index, reciprocals);
      const __m512i even = _mm512_srli_epi64(_mm512_mul_epu32(x, reciprocal), 32);
      const __m512i odd =
          _mm512_mul_epu32(_mm512_srli_epi64(x, 32), _mm512_srli_epi64(reciprocal, 32));
      const __m512i quotient = _mm512_mask_mov_epi32(even, 0xAAAA, odd);
      const __m512i raised =
          _mm512_mullo_epi32(quotient, _mm512_permutexvar_epi32(index, complements));
      state[v] =
          _mm512_add_epi32(_mm512_add_epi32(x, _mm512_permutexvar_epi32(index, biases)), raised);
    }
  }
  for (std::size_t v = 0; v < kVectors; ++v) _mm512_storeu_si512(states + 16 * v, state[v]);
  return at;
}

// 256 bytes in registers, looked up by the low byte of each 32-bit lane.
struct ByteTable {
  explicit HWY_ATTR ByteTable(const std::array<std::uint8_t, 256>& table) {
    for (std::size_t k = 0; k < 4; ++k) part[k] = _mm512_load_si512(table.data() + 64 * k);
  }
  /// @param upper lanes whose low byte is 128 or more
  HWY_INLINE __m512i Find(__m512i x, __mmask64 upper) const {
    constexpr __mmask64 kLowBytes = 0x1111111111111111;
    const __m512i found = _mm512_maskz_permutex2var_epi8(kLowBytes, part[0], x, part[1]);
    return _mm512_mask_mov_epi8(found, upper, _mm512_permutex2var_epi8(part[2], x, part[3]));
  }
  __m512i part[4];
};

// Decodes steps while a whole step's bytes are certain to be available.
// @return steps done
std::size_t DecodeSteps(const RansDecoderTables& t, const std::byte*& from, const std::byte* end,
                        std::uint8_t* codes, std::size_t steps, std::uint32_t* states) {
  const ByteTable frequency(t.frequency), offset(t.offset), index(t.index);
  const __m512i low = _mm512_set1_epi32(kLow);
  const __m512i bit7 = _mm512_set1_epi32(0x80);
  __m512i state[kVectors];
  for (std::size_t v = 0; v < kVectors; ++v) state[v] = _mm512_loadu_si512(states + 16 * v);
  const std::byte* at = from;
  std::size_t s = 0;
  for (; s < steps && end - at >= static_cast<std::ptrdiff_t>(kRansLanes); ++s) {
    for (std::size_t v = 0; v < kVectors; ++v) {
      const __mmask64 upper = _mm512_test_epi8_mask(state[v], bit7);
      const __m512i f = frequency.Find(state[v], upper);
      auto* to = reinterpret_cast<__m128i*>(codes + s * kRansLanes + 16 * v);
      _mm_storeu_si128(to, _mm512_cvtepi32_epi8(index.Find(state[v], upper)));
      const __m512i x = _mm512_add_epi32(_mm512_mullo_epi32(f, _mm512_srli_epi32(state[v], 8)),
                                         offset.Find(state[v], upper));
      const __mmask16 refill = _mm512_cmplt_epu32_mask(x, low);
      const __m512i bytes =
          _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(at)));
      at += __builtin_popcount(refill);
      state[v] = _mm512_or_si512(_mm512_mask_slli_epi32(x, refill, x, 8),
                                 _mm512_maskz_expand_epi32(refill, bytes));
    }
  }
  for (std::size_t v = 0; v < kVectors; ++v) _mm512_storeu_si512(states + 16 * v, state[v]);
  from = at;
  return s;
}

std::byte* EncodeFullSteps(const RansEncoderTables& t, const std::uint8_t* codes, std::size_t steps,
                           std::uint32_t* states, std::byte* to) {
  return EncodeSteps(t, codes, steps, states, to);
}

void DecodeFullSteps(const RansDecoderTables& t, Source& source, std::uint8_t* codes,
                     std::size_t steps, std::uint32_t* states) {
  const std::byte* from = source.begin;
  std::size_t done = DecodeSteps(t, from, source.begin + source.size, codes, steps, states);
  source.used = static_cast<std::size_t>(from - source.begin);
  if (done == steps) return;
  // Fewer than 32 bytes are left, and zeros are appended. Only a malformed stream uses these.
  std::byte rest[3 * kRansLanes] = {};
  std::memcpy(rest, from, source.size - source.used);
  from = rest;
  done += DecodeSteps(t, from, rest + sizeof rest, codes + done * kRansLanes, steps - done, states);
  source.used += static_cast<std::size_t>(from - rest);
  std::memset(codes + done * kRansLanes, 0, (steps - done) * kRansLanes);
}

}  // namespace
}  // namespace eqt::codec::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif

#endif  // guard
