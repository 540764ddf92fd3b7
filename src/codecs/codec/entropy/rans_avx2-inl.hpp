// SPDX-License-Identifier: Apache-2.0
// Steps of rANS for AVX2. Included once per vector target, inside the files that Highway compiles
// for each.

#include <hwy/highway.h>

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "codec/bytes.hpp"
#include "codec/entropy/rans_kernels.hpp"
#include "codec/entropy/rans_plain-inl.hpp"

// Either both or neither is defined: the guard flips with each target.
#if defined(EQT_CODEC_RANS_AVX2_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef EQT_CODEC_RANS_AVX2_INL_HPP
#undef EQT_CODEC_RANS_AVX2_INL_HPP
#else
#define EQT_CODEC_RANS_AVX2_INL_HPP
#endif

#if HWY_ARCH_X86_64 && HWY_TARGET <= HWY_AVX2 && HWY_TARGET > HWY_AVX3_DL
HWY_BEFORE_NAMESPACE();
namespace eqt::codec::HWY_NAMESPACE {
namespace {

constexpr std::size_t kVectors = kRansLanes / 8;

// The tables say where bytes go by a mask of eight lanes; 0x80 means zero.
struct ByteMoves {
  std::uint8_t spread[256][32];  // byte k to the low byte of the mask's lane k
  std::uint8_t packed[256][8];   // of a byte for each lane, those of the mask to the end
};
constexpr ByteMoves byte_moves() {
  ByteMoves moves{};
  for (std::size_t mask = 0; mask < 256; ++mask) {
    for (std::uint8_t& place : moves.spread[mask]) place = 0x80;
    std::uint8_t k = 0;
    for (std::size_t lane = 0; lane < 8; ++lane)
      if ((mask >> lane & 1) != 0) moves.spread[mask][4 * lane] = k++;
    for (std::size_t lane = 8, to = 8; lane-- > 0;)
      if ((mask >> lane & 1) != 0) moves.packed[mask][--to] = static_cast<std::uint8_t>(lane);
  }
  return moves;
}
alignas(64) constexpr ByteMoves kByteMoves = byte_moves();

// 32 lanes in four registers: those that unpacking 32 bytes gives. Register v has the lanes
// 4 v ... 4 v + 3 in its lower half, and those 16 further in its upper half.
struct Lanes {
  __m256i part[kVectors];
};

HWY_INLINE Lanes Load32(const std::uint32_t* states) {
  Lanes lanes;
  for (std::size_t v = 0; v < kVectors; ++v) {
    const auto* lower = reinterpret_cast<const __m128i*>(states + 4 * v);
    lanes.part[v] = _mm256_inserti128_si256(_mm256_castsi128_si256(_mm_loadu_si128(lower)),
                                            _mm_loadu_si128(lower + 4), 1);
  }
  return lanes;
}

HWY_INLINE void Store32(const Lanes& lanes, std::uint32_t* states) {
  for (std::size_t v = 0; v < kVectors; ++v) {
    auto* lower = reinterpret_cast<__m128i*>(states + 4 * v);
    _mm_storeu_si128(lower, _mm256_castsi256_si128(lanes.part[v]));
    _mm_storeu_si128(lower + 4, _mm256_extracti128_si256(lanes.part[v], 1));
  }
}

// low + 256 high of each lane.
HWY_INLINE Lanes Unpacked(__m256i low, __m256i high) {
  const __m256i zero = _mm256_setzero_si256();
  const __m256i first = _mm256_unpacklo_epi8(low, high), second = _mm256_unpackhi_epi8(low, high);
  return {{_mm256_unpacklo_epi16(first, zero), _mm256_unpackhi_epi16(first, zero),
           _mm256_unpacklo_epi16(second, zero), _mm256_unpackhi_epi16(second, zero)}};
}

// The low bytes, in the order of lanes.
HWY_INLINE __m256i LowBytes(const Lanes& x) {
  const __m256i mask = _mm256_set1_epi32(0xFF);
  __m256i low[kVectors];
  for (std::size_t v = 0; v < kVectors; ++v) low[v] = _mm256_and_si256(x.part[v], mask);
  return _mm256_packus_epi16(_mm256_packus_epi32(low[0], low[1]),
                             _mm256_packus_epi32(low[2], low[3]));
}

// Bit k: lane k of what comparisons gave.
HWY_INLINE std::uint32_t MaskBits(const Lanes& x) {
  return static_cast<std::uint32_t>(_mm256_movemask_epi8(_mm256_packs_epi16(
      _mm256_packs_epi32(x.part[0], x.part[1]), _mm256_packs_epi32(x.part[2], x.part[3]))));
}

// Tables of 16 bytes, in both halves.
template <typename Values>
HWY_INLINE __m256i ByteTable(const Values& values) {
  alignas(16) std::uint8_t row[16];
  for (std::size_t k = 0; k < 16; ++k) row[k] = static_cast<std::uint8_t>(values[k]);
  return _mm256_broadcastsi128_si256(_mm_load_si128(reinterpret_cast<const __m128i*>(row)));
}

HWY_INLINE __m128i Move(const std::uint8_t (&row)[8]) {
  return _mm_loadl_epi64(reinterpret_cast<const __m128i*>(row));
}

std::byte* EncodeFullSteps(const RansEncoderTables& t, const std::uint8_t* codes, std::size_t steps,
                           std::uint32_t* states, std::byte* at) {
  const __m256i frequencies = ByteTable(t.frequency), starts = ByteTable(t.start);
  const __m256i index_mask = _mm256_set1_epi8(0x7F), byte = _mm256_set1_epi32(0xFF);
  const __m256i eight = _mm256_set1_epi32(8), whole = _mm256_set1_epi32(256);
  Lanes state = Load32(states);
  for (std::size_t s = steps; s-- > 0;) {
    const auto* from = reinterpret_cast<const __m256i*>(codes + s * kRansLanes);
    const __m256i index = _mm256_and_si256(_mm256_loadu_si256(from), index_mask);
    const Lanes model =
        Unpacked(_mm256_shuffle_epi8(frequencies, index), _mm256_shuffle_epi8(starts, index));
    Lanes f, fits;
    for (std::size_t v = 0; v < kVectors; ++v) {
      f.part[v] = _mm256_and_si256(model.part[v], byte);
      // States are below 2^24, so signed comparisons are correct.
      fits.part[v] = _mm256_cmpgt_epi32(_mm256_slli_epi32(f.part[v], 16), state.part[v]);
    }
    const std::uint32_t full = ~MaskBits(fits);
    const __m256i low = LowBytes(state);
    const __m128i halves[] = {_mm256_castsi256_si128(low), _mm256_extracti128_si256(low, 1)};
    for (std::size_t g = 4; g-- > 0;) {
      const std::uint32_t mask = full >> (8 * g) & 0xFF;
      const __m128i own = g % 2 == 0 ? halves[g / 2] : _mm_srli_si128(halves[g / 2], 8);
      _mm_storel_epi64(reinterpret_cast<__m128i*>(at - 8),
                       _mm_shuffle_epi8(own, Move(kByteMoves.packed[mask])));
      at -= std::popcount(mask);
    }
    for (std::size_t v = 0; v < kVectors; ++v) {
      const __m256i x = _mm256_srlv_epi32(state.part[v], _mm256_andnot_si256(fits.part[v], eight));
      // x / f < 2^16 is at least 2^-8 below the next integer: rounding to fp32 never reaches it.
      const __m256i quotient =
          _mm256_cvttps_epi32(_mm256_div_ps(_mm256_cvtepi32_ps(x), _mm256_cvtepi32_ps(f.part[v])));
      const __m256i raised = _mm256_mullo_epi32(quotient, _mm256_sub_epi32(whole, f.part[v]));
      state.part[v] =
          _mm256_add_epi32(_mm256_add_epi32(x, _mm256_srli_epi32(model.part[v], 8)), raised);
    }
  }
  Store32(state, states);
  return at;
}

// kSymbols: at least those of the table. Fixed numbers, because a loop over them costs as much as
// they do.
template <std::size_t kSymbols>
void DecodeStepsOf(const RansDecoderTables& t, Source& source, std::uint8_t* codes,
                   std::size_t steps, std::uint32_t* states) {
  const __m256i frequencies = ByteTable(t.frequencies), starts = ByteTable(t.starts);
  const __m256i byte = _mm256_set1_epi32(0xFF), eight = _mm256_set1_epi32(8);
  const __m256i low = _mm256_set1_epi32(kLow);
  // The upper bytes of a lane look up zeros.
  const __m256i only_low = _mm256_set1_epi32(static_cast<int>(0x80808000u));
  __m256i below[kSymbols];
  for (std::size_t k = 0; k < kSymbols; ++k)
    below[k] = _mm256_set1_epi32(k < t.symbols ? t.starts[k] - 1 : 255);
  // Lanes 8 v ... 8 v + 7, because registers that do not wait for each other are faster here.
  __m256i state[kVectors];
  for (std::size_t v = 0; v < kVectors; ++v)
    state[v] = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(states + 8 * v));
  const std::byte* at = source.begin;
  const std::byte* const end = source.begin + source.size;
  std::size_t s = 0;
  for (; s < steps && end - at >= static_cast<std::ptrdiff_t>(kRansLanes); ++s) {
    __m256i index[kVectors];
    for (std::size_t v = 0; v < kVectors; ++v) {
      const __m256i slot = _mm256_and_si256(state[v], byte);
      // Two sums, because each addition waits for the one before.
      __m256i odd = _mm256_sub_epi32(only_low, _mm256_cmpgt_epi32(slot, below[1]));
      __m256i even = _mm256_setzero_si256();
#pragma GCC unroll 16
      for (std::size_t k = 2; k < kSymbols; k += 2) {
        even = _mm256_add_epi32(even, _mm256_cmpgt_epi32(slot, below[k]));
        odd = _mm256_sub_epi32(odd, _mm256_cmpgt_epi32(slot, below[k + 1]));
      }
      index[v] = _mm256_sub_epi32(odd, even);
      const __m256i f = _mm256_shuffle_epi8(frequencies, index[v]);
      const __m256i offset = _mm256_sub_epi32(slot, _mm256_shuffle_epi8(starts, index[v]));
      const __m256i x =
          _mm256_add_epi32(_mm256_mullo_epi32(_mm256_srli_epi32(state[v], 8), f), offset);
      const __m256i missing = _mm256_sub_epi32(x, low);  // negative: x is below
      const auto mask = static_cast<unsigned>(_mm256_movemask_ps(_mm256_castsi256_ps(missing)));
      const __m256i next = _mm256_set1_epi64x(load<std::int64_t>(at));
      const auto* spread = reinterpret_cast<const __m256i*>(kByteMoves.spread[mask]);
      const __m256i bytes = _mm256_shuffle_epi8(next, _mm256_load_si256(spread));
      at += std::popcount(mask);
      const __m256i shift = _mm256_and_si256(_mm256_srli_epi32(missing, 28), eight);
      state[v] = _mm256_or_si256(_mm256_sllv_epi32(x, shift), bytes);
    }
    for (__m256i& i : index) i = _mm256_and_si256(i, byte);
    const __m256i packed = _mm256_packus_epi16(_mm256_packus_epi32(index[0], index[1]),
                                               _mm256_packus_epi32(index[2], index[3]));
    _mm256_storeu_si256(
        reinterpret_cast<__m256i*>(codes + s * kRansLanes),
        _mm256_permutevar8x32_epi32(packed, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7)));
  }
  for (std::size_t v = 0; v < kVectors; ++v)
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(states + 8 * v), state[v]);
  DecodeLastSteps(t, source, at, codes, s, steps, states);
}

void DecodeFullSteps(const RansDecoderTables& t, Source& source, std::uint8_t* codes,
                     std::size_t steps, std::uint32_t* states) {
  if (t.symbols <= 4) return DecodeStepsOf<4>(t, source, codes, steps, states);
  if (t.symbols <= 8) return DecodeStepsOf<8>(t, source, codes, steps, states);
  DecodeStepsOf<kRansVectorSymbols>(t, source, codes, steps, states);
}

}  // namespace
}  // namespace eqt::codec::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif

#endif  // guard
