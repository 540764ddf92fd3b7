// SPDX-License-Identifier: Apache-2.0
#include "codec/entropy/code_kernels.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

#include "codec/bytes.hpp"
#include "codec/entropy/byte_moves.hpp"
#include "codec/entropy/elias.hpp"
#include "codec/levels/level_table.hpp"
#include "core/error.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "codec/entropy/code_kernels.cpp"
#include "hwy/foreach_target.h"  // must precede highway.h
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace eqt::codec {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// The bits of 64 level codes: nonzero indices, and signs.

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
  for (std::size_t k = 0; k < 64; ++k) negative |= std::uint64_t{codes[k] >= 0x80u} << k;
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

namespace {

void CountByTable(const std::uint8_t* codes, std::size_t count, std::uint64_t* counts) {
  std::array<std::uint32_t, 256> bytes{};
  count_bytes({codes, count}, bytes);
  for (std::size_t c = 0; c < bytes.size(); ++c) counts[c & 0x7F] += bytes[c];
}

#if HWY_TARGET == HWY_SCALAR  // has no vectors of bytes

void CountIndices(const std::uint8_t* codes, std::size_t count, std::size_t /*symbols*/,
                  std::uint64_t* counts) {
  CountByTable(codes, count, counts);
}

#else

// Counts of the indices first ... first + 6. Byte counters hold 255 vectors.
std::size_t CountSeven(const std::uint8_t* codes, std::size_t count, std::size_t first,
                       std::uint64_t* counts) {
  const U8 d;
  const hn::Repartition<std::uint64_t, U8> d64;
  const auto index_mask = hn::Set(d, std::uint8_t{0x7F});
  hn::Vec<decltype(d64)> totals[7];
  for (auto& total : totals) total = hn::Zero(d64);
  std::size_t i = 0;
  while (i + kBytes <= count) {
    const std::size_t stop = std::min(count / kBytes * kBytes, i + 255 * kBytes);
    hn::Vec<U8> seen[7];
    for (auto& s : seen) s = hn::Zero(d);
    for (; i < stop; i += kBytes) {
      const auto index = hn::And(hn::LoadU(d, codes + i), index_mask);
      for (std::size_t k = 0; k < 7; ++k) {
        const auto wanted = hn::Set(d, static_cast<std::uint8_t>(first + k));
        seen[k] = hn::Sub(seen[k], hn::VecFromMask(d, hn::Eq(index, wanted)));
      }
    }
    for (std::size_t k = 0; k < 7; ++k) totals[k] = hn::Add(totals[k], hn::SumsOf8(seen[k]));
  }
  for (std::size_t k = 0; k < 7; ++k) {
    counts[first + k] += hn::GetLane(hn::SumOfLanes(d64, totals[k]));
  }
  return i;
}

void CountIndices(const std::uint8_t* codes, std::size_t count, std::size_t symbols,
                  std::uint64_t* counts) {
  if (symbols > 22) return CountByTable(codes, count, counts);
  const std::size_t done = count / kBytes * kBytes;
  for (std::size_t first = 1; first < symbols; first += 7) CountSeven(codes, done, first, counts);
  std::uint64_t others = 0;
  for (std::size_t k = 1; k < symbols; ++k) others += counts[k];
  counts[0] = done - others;
  for (std::size_t i = done; i < count; ++i) ++counts[codes[i] & 0x7F];
}

#endif

std::size_t PackSigns(const std::uint8_t* codes, std::size_t count, std::byte* row) {
  std::uint64_t pending = 0;
  std::size_t bits = 0;  // written, the pending ones included
  alignas(64) std::uint8_t last[64] = {};
  for (std::size_t i = 0; i < count; i += 64) {
    const std::uint8_t* from = codes + i;
    if (count - i < 64) {
      std::memcpy(last, from, count - i);
      from = last;
    }
    const std::uint64_t nonzero = Nonzeros(from);
    const std::uint64_t signs = SignsOf(from, nonzero);
    const auto used = bits % 64;
    pending |= signs << used;
    store(row + bits / 64 * 8, pending);
    const auto more = static_cast<std::size_t>(hwy::PopCount(nonzero));
    if (used + more >= 64) pending = used == 0 ? 0 : signs >> (64 - used);
    bits += more;
  }
  store(row + bits / 64 * 8, pending);
  return bits;
}

std::size_t ApplySigns(const std::byte* row, std::uint8_t* codes, std::size_t count) {
  std::size_t bits = 0;
  alignas(64) std::uint8_t last[64] = {};
  for (std::size_t i = 0; i < count; i += 64) {
    std::uint8_t* to = codes + i;
    if (count - i < 64) {
      std::memcpy(last, to, count - i);
      to = last;
    }
    const std::uint64_t nonzero = Nonzeros(to);
    const std::uint64_t low = load<std::uint64_t>(row + bits / 8) >> bits % 8;
    const std::uint64_t high = std::to_integer<std::uint64_t>(row[bits / 8 + 8]);
    const std::uint64_t signs = bits % 8 == 0 ? low : low | high << (64 - bits % 8);
    SetSigns(signs, nonzero, to);
    if (count - i < 64) std::memcpy(codes + i, last, count - i);
    bits += static_cast<std::size_t>(hwy::PopCount(nonzero));
  }
  return bits;
}

void NonzeroFlags(const std::uint8_t* codes, std::size_t count, std::uint64_t* flags) {
  std::size_t i = 0;
  for (; i + 64 <= count; i += 64) flags[i / 64] = Nonzeros(codes + i);
  if (i < count) {
    alignas(64) std::uint8_t last[64] = {};
    std::memcpy(last, codes + i, count - i);
    flags[i / 64] = Nonzeros(last);
  }
}

std::size_t CountNonzeros(const std::uint8_t* codes, std::size_t count) {
  std::size_t nonzeros = 0;
  std::uint64_t flags[16];
  for (std::size_t i = 0; i < count; i += 1024) {
    const std::size_t block = std::min<std::size_t>(1024, count - i);
    NonzeroFlags(codes + i, block, flags);
    for (std::size_t w = 0; w * 64 < block; ++w) {
      nonzeros += static_cast<std::size_t>(hwy::PopCount(flags[w]));
    }
  }
  return nonzeros;
}

// A word of nonzero flags and the one before it.
struct Flags {
  HWY_INLINE Flags Shifted(int by) const {
    return {before << by, here << by | before >> (64 - by)};
  }
  HWY_INLINE Flags operator|(const Flags& other) const {
    return {before | other.before, here | other.here};
  }
  std::uint64_t before;
  std::uint64_t here;
};

// Lengths of omega words change at powers of two: a gap is at least k if none of the k - 1 codes
// before is nonzero, which shifts and ors compute for 64 codes at once.
std::uint64_t GapBits(const std::uint8_t* codes, std::size_t count) {
  std::uint64_t bits = 0;
  std::uint64_t before = std::uint64_t{1} << 63;  // code -1 counts as nonzero
  std::size_t last = 0;                           // the position after the last nonzero
  for (std::size_t i = 0; i < count; i += 64) {
    std::uint64_t here;
    NonzeroFlags(codes + i, std::min<std::size_t>(64, count - i), &here);
    const auto longer_than = [&](const Flags& seen) HWY_ATTR {
      return static_cast<std::uint64_t>(hwy::PopCount(here & ~seen.here));
    };
    const Flags of1 = Flags{before, here}.Shifted(1);  // the code before is nonzero
    const Flags of2 = of1 | of1.Shifted(1), of4 = of2 | of2.Shifted(2);
    const Flags of8 = of4 | of4.Shifted(4), of16 = of8 | of8.Shifted(8);
    const Flags of32 = of16 | of16.Shifted(16);
    const Flags of63 = of32 | of32.Shifted(31);
    bits += static_cast<std::uint64_t>(hwy::PopCount(here)) + 2 * longer_than(of1) +
            3 * longer_than(of2 | of1.Shifted(2)) + longer_than(of4 | of4.Shifted(3)) +
            4 * longer_than(of8 | of8.Shifted(7)) + longer_than(of16 | of16.Shifted(15));
    before = here;
    if (here == 0) continue;
    const std::uint64_t far = here & ~of63.here;  // a gap of 64 or more: the first one, if any
    if (far != 0) {
      const std::size_t gap = i + static_cast<std::size_t>(std::countr_zero(far)) + 1 - last;
      bits += static_cast<std::uint64_t>(omega_length(gap) - omega_length(32));
    }
    last = i + static_cast<std::size_t>(std::bit_width(here));
  }
  return bits;
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace eqt::codec
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace eqt::codec {

HWY_EXPORT(CountIndices);
HWY_EXPORT(PackSigns);
HWY_EXPORT(ApplySigns);
HWY_EXPORT(CountNonzeros);
HWY_EXPORT(NonzeroFlags);
HWY_EXPORT(GapBits);

// Eight rows of counters, because successive increments of one counter wait for each other.
void count_bytes(std::span<const std::uint8_t> bytes, std::array<std::uint32_t, 256>& counts) {
  std::uint32_t rows[8][256] = {};
  std::size_t i = 0;
  for (; i + 8 <= bytes.size(); i += 8) {
    std::uint64_t eight;
    std::memcpy(&eight, bytes.data() + i, 8);
    for (std::size_t k = 0; k < 8; ++k) ++rows[k][eight >> (8 * k) & 0xFF];
  }
  for (; i < bytes.size(); ++i) ++rows[0][bytes[i]];
  for (const auto& row : rows) {
    for (std::size_t c = 0; c < 256; ++c) counts[c] += row[c];
  }
}

IndexCounts count_indices(std::span<const LevelCode> codes, std::size_t symbols) {
  IndexCounts counts{};
  HWY_DYNAMIC_DISPATCH(CountIndices)(codes.data(), codes.size(), symbols, counts.data());
  return counts;
}

std::size_t pack_signs(std::span<const LevelCode> codes, std::span<std::byte> row) {
  EQT_CHECK(row.size() >= sign_room(codes.size()), "{} bytes for the signs of {} codes", row.size(),
            codes.size());
  return HWY_DYNAMIC_DISPATCH(PackSigns)(codes.data(), codes.size(), row.data());
}

std::size_t apply_signs(std::span<const std::byte> row, std::span<LevelCode> codes) {
  EQT_CHECK(row.size() >= sign_room(codes.size()), "{} bytes for the signs of {} codes", row.size(),
            codes.size());
  return HWY_DYNAMIC_DISPATCH(ApplySigns)(row.data(), codes.data(), codes.size());
}

void nonzero_flags(std::span<const LevelCode> codes, std::span<std::uint64_t> flags) {
  EQT_CHECK(flags.size() * 64 >= codes.size(), "{} words of flags for {} codes", flags.size(),
            codes.size());
  HWY_DYNAMIC_DISPATCH(NonzeroFlags)(codes.data(), codes.size(), flags.data());
}

std::size_t count_nonzeros(std::span<const LevelCode> codes) {
  return HWY_DYNAMIC_DISPATCH(CountNonzeros)(codes.data(), codes.size());
}

std::uint64_t gap_bits(std::span<const LevelCode> codes) {
  return HWY_DYNAMIC_DISPATCH(GapBits)(codes.data(), codes.size());
}

}  // namespace eqt::codec
#endif  // HWY_ONCE
