#include "codec/rans_kernels.hpp"

#include <algorithm>
#include <cstring>

// Scalable vectors (SVE, RVV) have no fixed length at compile time; those machines use NEON or the
// portable target.
#define HWY_DISABLED_TARGETS (HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV)
#define HWY_WANT_SSE4 1
#define HWY_WANT_AVX3_DL 1  // permutations and expansions of bytes
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "codec/rans_kernels.cpp"
#include "hwy/foreach_target.h"  // must precede highway.h
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace eqt::codec {
namespace HWY_NAMESPACE {
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

// Runs while a whole step's bytes are certain to be there.
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
  // Fewer than 32 bytes are left, and zeros follow. Whoever uses those has a wrong stream.
  std::byte rest[3 * kRansLanes] = {};
  std::memcpy(rest, from, source.size - source.used);
  from = rest;
  done += DecodeSteps(t, from, rest + sizeof rest, codes + done * kRansLanes, steps - done, states);
  source.used += static_cast<std::size_t>(from - rest);
  std::memset(codes + done * kRansLanes, 0, (steps - done) * kRansLanes);
}

#else

std::byte* EncodeFullSteps(const RansEncoderTables& t, const std::uint8_t* codes, std::size_t steps,
                           std::uint32_t* states, std::byte* to) {
  EncodePlain<8>(t, codes, 0, steps * kRansLanes, states, to);
  return to;
}

void DecodeFullSteps(const RansDecoderTables& t, Source& source, std::uint8_t* codes,
                     std::size_t steps, std::uint32_t* states) {
  DecodePlain<8>(t, source, codes, 0, steps * kRansLanes, states);
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

}  // namespace HWY_NAMESPACE
}  // namespace eqt::codec
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace eqt::codec {

HWY_EXPORT(RansEncode);
HWY_EXPORT(RansDecode);

RansEncoderTables rans_encoder_tables(std::span<const std::uint16_t> frequencies, int precision) {
  RansEncoderTables t;
  t.precision = precision;
  std::uint32_t start = 0;
  for (std::size_t i = 0; i < frequencies.size(); ++i) {
    const std::uint32_t f = frequencies[i];
    if (f == 0) continue;
    t.frequency[i] = f;
    t.start[i] = start;
    t.reciprocal40[i] = ((std::uint64_t{1} << 40) + f - 1) / f;
    if (i < kRansVectorSymbols) {
      t.limit[i] = f << (kRansHighBits - 8);
      t.reciprocal32[i] =
          f == 1 ? 0xFFFFFFFFu : static_cast<std::uint32_t>(((std::uint64_t{1} << 32) + f - 1) / f);
      t.bias[i] = f == 1 ? start + 255 : start;
      t.complement[i] = 256 - f;
    }
    start += f;
  }
  return t;
}

void rans_decoder_tables(std::span<const std::uint16_t> frequencies, int precision,
                         RansDecoderTables& t) {
  t.precision = precision;
  std::uint32_t slot = 0;
  for (std::size_t i = 0; i < frequencies.size(); ++i) {
    const std::uint32_t f = frequencies[i];
    if (precision == 8) {
      std::memset(t.frequency.data() + slot, static_cast<int>(f), f);
      std::memset(t.index.data() + slot, static_cast<int>(i), f);
      for (std::uint32_t k = 0; k < f; ++k) {
        t.offset[slot + k] = static_cast<std::uint8_t>(k);
      }
    } else {
      const std::uint32_t entry = static_cast<std::uint32_t>(i) << 24 | f << 12;
      for (std::uint32_t k = 0; k < f; ++k) t.packed[slot + k] = entry | k;
    }
    slot += f;
  }
}

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
