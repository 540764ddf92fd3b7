// SPDX-License-Identifier: Apache-2.0
#include "codec/entropy/rans_kernels.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

#include "codec/bytes.hpp"

#define HWY_WANT_SSE4 1
#define HWY_WANT_AVX3_DL 1  // permutations and expansions of bytes
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "codec/entropy/rans_kernels.cpp"
#include "hwy/foreach_target.h"  // must precede highway.h
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace eqt::codec::HWY_NAMESPACE {
namespace {

constexpr std::uint32_t kLow = std::uint32_t{1} << kRansLowBits;
template <int kPrecision>
void EncodePlain(const RansEncoderTables& t, const std::uint8_t* codes, std::size_t first,
                 std::size_t last, std::uint32_t* states, std::byte*& to) {
  std::byte* at = to;
  for (std::size_t i = last; i-- > first;) {
    const std::size_t index = codes[i] & 0x7Fu;
    const std::uint32_t f = t.frequency[index];
    std::uint32_t x = states[i % kRansLanes];
    while (x >= f << (kRansHighBits - kPrecision)) {
      *--at = static_cast<std::byte>(x);
      x >>= 8;
    }
    const auto q = static_cast<std::uint32_t>(x * t.reciprocal40[index] >> 40);
    states[i % kRansLanes] = x + t.start[index] + q * ((1u << kPrecision) - f);
  }
  to = at;
}

// The bytes of a stream, then zeros.
struct Source {
  const std::byte* begin;
  std::size_t size;
  std::size_t used = 0;

  HWY_INLINE std::uint32_t Next() {
    const auto byte = used < size ? std::to_integer<std::uint32_t>(begin[used]) : 0;
    ++used;
    return byte;
  }
};

template <int kPrecision>
void DecodePlain(const RansDecoderTables& t, Source& source, std::uint8_t* codes, std::size_t first,
                 std::size_t last, std::uint32_t* states) {
  for (std::size_t i = first; i < last; ++i) {
    std::uint32_t x = states[i % kRansLanes];
    const std::uint32_t slot = x % (1u << kPrecision);
    if (kPrecision == 8) {
      codes[i] = t.index[slot];
      x = (x >> 8) * t.frequency[slot] + t.offset[slot];
    } else {
      const std::uint32_t entry = t.packed[slot];
      codes[i] = static_cast<std::uint8_t>(entry >> 24);
      x = (x >> 12) * (entry >> 12 & 0xFFF) + (entry & 0xFFF);
    }
    while (x < kLow) x = x << 8 | source.Next();
    states[i % kRansLanes] = x;
  }
}

#if HWY_ARCH_X86_64 && HWY_TARGET <= HWY_AVX3_DL

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

#elif HWY_TARGET != HWY_SCALAR

namespace hn = hwy::HWY_NAMESPACE;
using U32 = hn::CappedTag<std::uint32_t, 4>;
using I32 = hn::Rebind<std::int32_t, U32>;
using F32 = hn::Rebind<float, U32>;
using U8 = hn::Repartition<std::uint8_t, U32>;
constexpr std::size_t kVectors = kRansLanes / 4;

// Byte permutations for the lanes of a mask that write or read one byte each; 0x80 means zero.
struct ByteMoves {
  ByteMoves() {
    std::memset(this, 0x80, sizeof *this);
    for (std::size_t mask = 0; mask < 16; ++mask) {
      const int count = std::popcount(mask);
      for (int lane = 0, k = 0; lane < 4; ++lane) {
        if ((mask >> lane & 1) == 0) continue;
        spread[mask][4 * lane] = static_cast<std::uint8_t>(k);
        packed[mask][4 - count + k] = static_cast<std::uint8_t>(4 * lane);
        ++k;
      }
    }
  }
  alignas(16) std::uint8_t spread[16][16];  // byte k to the mask's lane k
  alignas(16) std::uint8_t packed[16][16];  // the lanes' low bytes to the end of the first four
};
const ByteMoves& byte_moves() {
  static const ByteMoves moves;
  return moves;
}

// Looks up bytes of a table of 16, by lanes below 16.
HWY_INLINE hn::Vec<U32> Find(hn::Vec<U8> table, hn::Vec<U32> lanes) {
  const U32 d;
  const auto only_low = hn::Or(lanes, hn::Set(d, 0x80808000u));
  return hn::BitCast(d, hn::TableLookupBytesOr0(table, hn::BitCast(U8(), only_low)));
}

template <typename Values>
HWY_INLINE hn::Vec<U8> ByteRow(const Values& values) {
  alignas(16) std::uint8_t row[16];
  for (std::size_t k = 0; k < 16; ++k) row[k] = static_cast<std::uint8_t>(values[k]);
  return hn::Load(U8(), row);
}

HWY_INLINE std::size_t Bits(hn::Mask<U32> mask) {
  std::uint8_t bits[8];
  hn::StoreMaskBits(U32(), mask, bits);
  return bits[0] & 15u;
}

std::byte* EncodeFullSteps(const RansEncoderTables& t, const std::uint8_t* codes, std::size_t steps,
                           std::uint32_t* states, std::byte* at) {
  const U32 d;
  const I32 di;
  const F32 df;
  const hn::Rebind<std::uint8_t, U32> d_codes;
  const ByteMoves& moves = byte_moves();
  const auto frequencies = ByteRow(t.frequency), starts = ByteRow(t.start);
  const auto whole = hn::Set(d, 256u), index_mask = hn::Set(d, 0x7Fu);
  hn::Vec<U32> state[kVectors];
  for (std::size_t v = 0; v < kVectors; ++v) state[v] = hn::LoadU(d, states + 4 * v);
  for (std::size_t s = steps; s-- > 0;) {
    for (std::size_t v = kVectors; v-- > 0;) {
      const auto code = hn::LoadU(d_codes, codes + s * kRansLanes + 4 * v);
      const auto index = hn::And(hn::PromoteTo(d, code), index_mask);
      const auto f = Find(frequencies, index);
      // States are below 2^24, so signed comparisons are correct.
      const auto limit = hn::BitCast(di, hn::ShiftLeft<16>(f));
      const auto full = hn::Not(hn::RebindMask(d, hn::Lt(hn::BitCast(di, state[v]), limit)));
      const std::size_t mask = Bits(full);
      const auto low =
          hn::TableLookupBytesOr0(hn::BitCast(U8(), state[v]), hn::Load(U8(), moves.packed[mask]));
      store(at - 4, hn::GetLane(hn::BitCast(d, low)));
      at -= std::popcount(mask);
      const auto x = hn::IfThenElse(full, hn::ShiftRight<8>(state[v]), state[v]);
      // x / f < 2^16 is at least 2^-8 below the next integer: rounding to fp32 never reaches it.
      const auto quotient = hn::ConvertTo(di, hn::Div(hn::ConvertTo(df, hn::BitCast(di, x)),
                                                      hn::ConvertTo(df, hn::BitCast(di, f))));
      const auto raised = hn::Mul(hn::BitCast(d, quotient), hn::Sub(whole, f));
      state[v] = hn::Add(hn::Add(x, Find(starts, index)), raised);
    }
  }
  for (std::size_t v = 0; v < kVectors; ++v) hn::StoreU(state[v], d, states + 4 * v);
  return at;
}

void DecodeFullSteps(const RansDecoderTables& t, Source& source, std::uint8_t* codes,
                     std::size_t steps, std::uint32_t* states) {
  const U32 d;
  const I32 di;
  const hn::Rebind<std::uint8_t, U32> d_codes;
  const ByteMoves& moves = byte_moves();
  const auto frequencies = ByteRow(t.frequencies), starts = ByteRow(t.starts);
  hn::Vec<I32> last_slot[kRansVectorSymbols];
  for (std::size_t k = 1; k < t.symbols; ++k) last_slot[k] = hn::Set(di, t.starts[k] - 1);
  const auto low_byte = hn::Set(d, 0xFFu);
  const auto low = hn::Set(di, static_cast<std::int32_t>(kLow));
  hn::Vec<U32> state[kVectors];
  for (std::size_t v = 0; v < kVectors; ++v) state[v] = hn::LoadU(d, states + 4 * v);
  const std::byte* at = source.begin;
  const std::byte* const end = source.begin + source.size;
  std::size_t s = 0;
  for (; s < steps && end - at >= static_cast<std::ptrdiff_t>(kRansLanes); ++s) {
    for (std::size_t v = 0; v < kVectors; ++v) {
      const auto slot = hn::And(state[v], low_byte);
      auto above = hn::Zero(di);  // -(number of starts up to the slot)
      for (std::size_t k = 1; k < t.symbols; ++k) {
        above = hn::Add(above, hn::VecFromMask(di, hn::Gt(hn::BitCast(di, slot), last_slot[k])));
      }
      const auto index = hn::BitCast(d, hn::Neg(above));
      hn::StoreU(hn::TruncateTo(d_codes, index), d_codes, codes + s * kRansLanes + 4 * v);
      const auto raised = hn::Mul(hn::ShiftRight<8>(state[v]), Find(frequencies, index));
      const auto x = hn::Add(raised, hn::Sub(slot, Find(starts, index)));
      const auto refill = hn::RebindMask(d, hn::Lt(hn::BitCast(di, x), low));
      const std::size_t mask = Bits(refill);
      const auto four = hn::BitCast(U8(), hn::Set(d, load<std::uint32_t>(at)));
      const auto bytes = hn::TableLookupBytesOr0(four, hn::Load(U8(), moves.spread[mask]));
      at += std::popcount(mask);
      state[v] = hn::Or(hn::IfThenElse(refill, hn::ShiftLeft<8>(x), x), hn::BitCast(d, bytes));
    }
  }
  for (std::size_t v = 0; v < kVectors; ++v) hn::StoreU(state[v], d, states + 4 * v);
  source.used = static_cast<std::size_t>(at - source.begin);
  DecodePlain<8>(t, source, codes, s * kRansLanes, steps * kRansLanes, states);
}

#else

// Without branches on the data, because it is random whether a state writes a byte.
std::byte* EncodeFullSteps(const RansEncoderTables& t, const std::uint8_t* codes, std::size_t steps,
                           std::uint32_t* states, std::byte* at) {
  for (std::size_t s = steps; s-- > 0;) {
    const std::uint8_t* const step = codes + s * kRansLanes;
    for (std::size_t lane = kRansLanes; lane-- > 0;) {
      const std::size_t index = step[lane] & 0xFu;
      std::uint32_t x = states[lane];
      const bool full = x >= t.limit[index];
      at[-1] = static_cast<std::byte>(x);
      at -= full;
      x >>= full ? 8 : 0;
      const auto q = static_cast<std::uint32_t>(std::uint64_t{x} * t.reciprocal32[index] >> 32);
      states[lane] = x + t.bias[index] + q * t.complement[index];
    }
  }
  return at;
}

void DecodeFullSteps(const RansDecoderTables& t, Source& source, std::uint8_t* codes,
                     std::size_t steps, std::uint32_t* states) {
  const std::byte* at = source.begin;
  const std::byte* const end = source.begin + source.size;
  std::uint32_t local[kRansLanes];
  std::memcpy(local, states, sizeof local);
  std::size_t s = 0;
  for (; s < steps && end - at >= static_cast<std::ptrdiff_t>(kRansLanes); ++s) {
    for (std::size_t lane = 0; lane < kRansLanes; ++lane) {
      const std::uint32_t slot = local[lane] & 0xFF;
      codes[s * kRansLanes + lane] = t.index[slot];
      const std::uint32_t x = (local[lane] >> 8) * t.frequency[slot] + t.offset[slot];
      const std::uint32_t refill = x < kLow ? 1 : 0;
      const std::uint32_t byte = std::to_integer<std::uint32_t>(*at) & (0 - refill);
      local[lane] = x << (8 * refill) | byte;
      at += refill;
    }
  }
  std::memcpy(states, local, sizeof local);
  source.used = static_cast<std::size_t>(at - source.begin);
  DecodePlain<8>(t, source, codes, s * kRansLanes, steps * kRansLanes, states);
}

#endif

}  // namespace

std::byte* RansEncode(const RansEncoderTables& t, const std::uint8_t* codes, std::size_t count,
                      std::uint32_t* states, std::byte* end) {
  std::byte* at = end;
  if (t.precision == 12) {
    EncodePlain<12>(t, codes, 0, count, states, at);
    return at;
  }
  const std::size_t steps = count / kRansLanes;
  EncodePlain<8>(t, codes, steps * kRansLanes, count, states, at);
  return EncodeFullSteps(t, codes, steps, states, at);
}

std::size_t RansDecode(const RansDecoderTables& t, std::span<const std::byte> from,
                       std::uint32_t* states, std::uint8_t* codes, std::size_t count) {
  Source source{from.data(), from.size()};
  if (t.precision == 12) {
    DecodePlain<12>(t, source, codes, 0, count, states);
    return source.used;
  }
  const std::size_t steps = count / kRansLanes;
  DecodeFullSteps(t, source, codes, steps, states);
  if (source.used <= source.size) {
    DecodePlain<8>(t, source, codes, steps * kRansLanes, count, states);
  }
  return source.used;
}

}  // namespace eqt::codec::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace eqt::codec {

HWY_EXPORT(RansEncode);
HWY_EXPORT(RansDecode);

std::byte* rans_encode(const RansEncoderTables& tables, std::span<const LevelCode> codes,
                       RansStates& states, std::byte* end) {
  return HWY_DYNAMIC_DISPATCH(RansEncode)(tables, codes.data(), codes.size(), states.data(), end);
}

std::size_t rans_decode(const RansDecoderTables& tables, std::span<const std::byte> from,
                        RansStates& states, std::span<LevelCode> codes) {
  return HWY_DYNAMIC_DISPATCH(RansDecode)(tables, from, states.data(), codes.data(), codes.size());
}

}  // namespace eqt::codec
#endif  // HWY_ONCE
