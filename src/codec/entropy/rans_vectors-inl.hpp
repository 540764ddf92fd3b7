// SPDX-License-Identifier: Apache-2.0
// Steps of rANS for vectors of 128 bits. Included once per vector target, inside the files that
// Highway compiles for each.

#include <hwy/highway.h>

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "codec/bytes.hpp"
#include "codec/entropy/rans_kernels.hpp"
#include "codec/entropy/rans_plain-inl.hpp"

// Either both or neither is defined: the guard flips with each target.
#if defined(EQT_CODEC_RANS_VECTORS_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef EQT_CODEC_RANS_VECTORS_INL_HPP
#undef EQT_CODEC_RANS_VECTORS_INL_HPP
#else
#define EQT_CODEC_RANS_VECTORS_INL_HPP
#endif

#if !(HWY_ARCH_X86_64 && HWY_TARGET <= HWY_AVX2) && HWY_TARGET != HWY_SCALAR
HWY_BEFORE_NAMESPACE();
namespace eqt::codec::HWY_NAMESPACE {
namespace {

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
  DecodeLastSteps(t, source, at, codes, s, steps, states);
}

}  // namespace
}  // namespace eqt::codec::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif

#endif  // guard
