// SPDX-License-Identifier: Apache-2.0
// Steps of rANS for vectors of 128 bits. Included once per vector target, inside the files that
// Highway compiles for each.
//
// A state's three bytes are in three vectors, so that 16 states take the instructions of four, and
// comparisons, shifts by a byte and table lookups are those of bytes.

#include <hwy/highway.h>

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "codec/bytes.hpp"
#include "codec/entropy/byte_moves.hpp"
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
using U8 = hn::Full128<std::uint8_t>;
using U16 = hn::Full128<std::uint16_t>;
using U32 = hn::Full128<std::uint32_t>;
using U64 = hn::Full128<std::uint64_t>;
using Bytes = hn::Vec<U8>;
using HalfBytes = hn::Half<U8>;
constexpr std::size_t kGroup = 16;  // states
constexpr std::size_t kGroups = kRansLanes / kGroup;

// The states of a group, bits 0 ... 7, 8 ... 15 and 16 ... 23.
struct States {
  HWY_INLINE States() {}
  HWY_INLINE States(Bytes l, Bytes m, Bytes h) : low(l), middle(m), high(h) {}
  Bytes low, middle, high;
};

HWY_INLINE States LoadStates(const std::uint32_t* states) {
  HWY_ALIGN std::uint8_t bytes[3][kGroup];
  for (std::size_t lane = 0; lane < kGroup; ++lane) {
    for (std::size_t k = 0; k < 3; ++k)
      bytes[k][lane] = static_cast<std::uint8_t>(states[lane] >> 8 * k);
  }
  const U8 d;
  return {hn::Load(d, bytes[0]), hn::Load(d, bytes[1]), hn::Load(d, bytes[2])};
}

HWY_INLINE void StoreStates(const States& from, std::uint32_t* states) {
  HWY_ALIGN std::uint8_t bytes[3][kGroup];
  const U8 d;
  hn::Store(from.low, d, bytes[0]);
  hn::Store(from.middle, d, bytes[1]);
  hn::Store(from.high, d, bytes[2]);
  for (std::size_t lane = 0; lane < kGroup; ++lane)
    states[lane] =
        bytes[0][lane] | std::uint32_t{bytes[1][lane]} << 8 | std::uint32_t{bytes[2][lane]} << 16;
}

// 16 words of 16 bits.
struct Words {
  HWY_INLINE Words(hn::Vec<U16> l, hn::Vec<U16> u) : lower(l), upper(u) {}
  hn::Vec<U16> lower, upper;
};

#if HWY_TARGET == HWY_NEON && HWY_ARCH_ARM_A64  // products of bytes, which Highway does not have

HWY_INLINE Words MulAddBytes(Bytes a, Bytes b, Bytes c) {
  return {
      hn::Vec<U16>{vaddw_u8(vmull_u8(vget_low_u8(a.raw), vget_low_u8(b.raw)), vget_low_u8(c.raw))},
      hn::Vec<U16>{vaddw_high_u8(vmull_high_u8(a.raw, b.raw), c.raw)}};
}
HWY_INLINE Words MulAddUpperBytes(Bytes a, Bytes b, Words c) {
  const auto lower = vmull_u8(vget_low_u8(a.raw), vget_low_u8(b.raw));
  return {hn::Vec<U16>{vsraq_n_u16(lower, c.lower.raw, 8)},
          hn::Vec<U16>{vsraq_n_u16(vmull_high_u8(a.raw, b.raw), c.upper.raw, 8)}};
}
HWY_INLINE Bytes MulSubBytes(Bytes c, Bytes a, Bytes b) {
  return Bytes{vmlsq_u8(c.raw, a.raw, b.raw)};
}
HWY_INLINE hn::Vec<U32> UpperProducts(hn::Vec<U32> a, hn::Vec<U32> b) {
  const auto lower = vmull_u32(vget_low_u32(a.raw), vget_low_u32(b.raw));
  const auto upper = vmull_high_u32(a.raw, b.raw);
  return hn::Vec<U32>{vuzp2q_u32(vreinterpretq_u32_u64(lower), vreinterpretq_u32_u64(upper))};
}

#else

HWY_INLINE Words Widened(Bytes a) {
  const U8 d;
  return {hn::BitCast(U16(), hn::InterleaveLower(d, a, hn::Zero(d))),
          hn::BitCast(U16(), hn::InterleaveUpper(d, a, hn::Zero(d)))};
}
// a * b + c.
HWY_INLINE Words MulAddBytes(Bytes a, Bytes b, Bytes c) {
  const Words wide_a = Widened(a), wide_b = Widened(b), wide_c = Widened(c);
  return {hn::Add(hn::Mul(wide_a.lower, wide_b.lower), wide_c.lower),
          hn::Add(hn::Mul(wide_a.upper, wide_b.upper), wide_c.upper)};
}
// a * b + c / 256.
HWY_INLINE Words MulAddUpperBytes(Bytes a, Bytes b, Words c) {
  const Words wide_a = Widened(a), wide_b = Widened(b);
  return {hn::Add(hn::Mul(wide_a.lower, wide_b.lower), hn::ShiftRight<8>(c.lower)),
          hn::Add(hn::Mul(wide_a.upper, wide_b.upper), hn::ShiftRight<8>(c.upper))};
}
// c - a * b, modulo 256.
HWY_INLINE Bytes MulSubBytes(Bytes c, Bytes a, Bytes b) {
  const U16 d;
  const auto a16 = hn::BitCast(d, a), b16 = hn::BitCast(d, b);
  const auto even = hn::And(hn::Mul(a16, b16), hn::Set(d, 0x00FF));
  const auto odd = hn::ShiftLeft<8>(hn::Mul(hn::ShiftRight<8>(a16), hn::ShiftRight<8>(b16)));
  return hn::Sub(c, hn::BitCast(U8(), hn::Or(even, odd)));
}
// a * b / 2^32.
HWY_INLINE hn::Vec<U32> UpperProducts(hn::Vec<U32> a, hn::Vec<U32> b) {
  const U32 d;
  const U64 d64;
  const auto odd_of = [&](hn::Vec<U32> v) HWY_ATTR {
    return hn::BitCast(d, hn::ShiftRight<32>(hn::BitCast(d64, v)));
  };
  const auto even = hn::BitCast(d, hn::ShiftRight<32>(hn::MulEven(a, b)));
  return hn::OddEven(hn::BitCast(d, hn::MulEven(odd_of(a), odd_of(b))), even);
}

#endif

template <typename Values>
HWY_INLINE Bytes ByteRow(const Values& values) {
  HWY_ALIGN std::uint8_t row[16];
  for (std::size_t k = 0; k < 16; ++k) row[k] = static_cast<std::uint8_t>(values[k]);
  return hn::Load(U8(), row);
}

// Divides by frequencies: x / f = (x + 1) * floor((2^32 - 1) / f) / 2^32, rounded down, for
// x < f * 2^16. With x = q f + r, the product's distance from (x + 1) / f is at most
// (x + 1) / 2^32 < 1 / f, so it is at least q; and it is below (x + 1) / f <= q + 1.
class Divider {
 public:
  explicit Divider(const RansEncoderTables& t) {
    HWY_ALIGN std::uint8_t rows[4][16] = {};
    for (std::size_t k = 0; k < 16; ++k) {
      const std::uint32_t reciprocal = t.frequency[k] == 0 ? 0 : 0xFFFFFFFFu / t.frequency[k];
      for (int byte = 0; byte < 4; ++byte)
        rows[byte][k] = static_cast<std::uint8_t>(reciprocal >> 8 * byte);
    }
    for (std::size_t byte = 0; byte < 4; ++byte) rows_[byte] = hn::Load(U8(), rows[byte]);
  }

  // The quotients of x by the frequencies of these indices; they have two bytes.
  HWY_INLINE void Divide(const States& x, Bytes index, Bytes& lower, Bytes& upper) const {
    const U8 d;
    const U16 d16;
    const U32 d32;
    const auto one = hn::Set(d32, 1u);
    const auto zip = [&](Bytes a, Bytes b) HWY_ATTR {
      return Words{hn::BitCast(d16, hn::InterleaveLower(d, a, b)),
                   hn::BitCast(d16, hn::InterleaveUpper(d, a, b))};
    };
    const auto find = [&](std::size_t byte)
                          HWY_ATTR { return hn::TableLookupBytes(rows_[byte], index); };
    const Words x01 = zip(x.low, x.middle), x23 = zip(x.high, hn::Zero(d));
    const Words r01 = zip(find(0), find(1)), r23 = zip(find(2), find(3));
    const auto quotients = [&](auto of_x, auto of_r) HWY_ATTR {
      return hn::BitCast(
          d16, UpperProducts(hn::Add(hn::BitCast(d32, of_x), one), hn::BitCast(d32, of_r)));
    };
    const auto q0 = quotients(hn::InterleaveLower(d16, x01.lower, x23.lower),
                              hn::InterleaveLower(d16, r01.lower, r23.lower));
    const auto q1 = quotients(hn::InterleaveUpper(d16, x01.lower, x23.lower),
                              hn::InterleaveUpper(d16, r01.lower, r23.lower));
    const auto q2 = quotients(hn::InterleaveLower(d16, x01.upper, x23.upper),
                              hn::InterleaveLower(d16, r01.upper, r23.upper));
    const auto q3 = quotients(hn::InterleaveUpper(d16, x01.upper, x23.upper),
                              hn::InterleaveUpper(d16, r01.upper, r23.upper));
    const auto q01 = hn::BitCast(d, hn::ConcatEven(d16, q1, q0));
    const auto q23 = hn::BitCast(d, hn::ConcatEven(d16, q3, q2));
    lower = hn::ConcatEven(d, q23, q01);
    upper = hn::ConcatOdd(d, q23, q01);
  }

 private:
  Bytes rows_[4];
};

// Writes the bytes of a mask's lanes before `at`.
HWY_INLINE std::byte* WriteBefore(std::byte* at, Bytes bytes, hn::Mask<U8> mask) {
  const U8 d;
  const HalfBytes d_half;
  std::uint8_t bits[8];
  hn::StoreMaskBits(d, mask, bits);
  const auto write = [&](hn::Vec<HalfBytes> half, std::size_t of_half) HWY_ATTR {
    const auto order = hn::Load(d_half, kPackedToEnd[of_half].data());
    hn::StoreU(hn::TableLookupBytes(half, order), d_half, reinterpret_cast<std::uint8_t*>(at - 8));
    at -= kBitCount[of_half];
  };
  write(hn::UpperHalf(d_half, bytes), bits[1]);
  write(hn::LowerHalf(d_half, bytes), bits[0]);
  return at;
}

std::byte* EncodeFullSteps(const RansEncoderTables& t, const std::uint8_t* codes, std::size_t steps,
                           std::uint32_t* states, std::byte* at) {
  const U8 d;
  const auto frequencies = ByteRow(t.frequency), starts = ByteRow(t.start);
  const auto index_mask = hn::Set(d, std::uint8_t{0x7F});
  const Divider divider(t);
  States state[kGroups];
  for (std::size_t g = 0; g < kGroups; ++g) state[g] = LoadStates(states + kGroup * g);
  for (std::size_t s = steps; s-- > 0;) {
    for (std::size_t g = kGroups; g-- > 0;) {
      States& x = state[g];
      const auto code = hn::LoadU(d, codes + s * kRansLanes + kGroup * g);
      const auto index = hn::And(code, index_mask);
      const auto f = hn::TableLookupBytes(frequencies, index);
      // A state of at least f * 2^16 gives a byte away.
      const auto full = hn::Eq(hn::Max(x.high, f), x.high);
      at = WriteBefore(at, x.low, full);
      x.low = hn::IfThenElse(full, x.middle, x.low);
      x.middle = hn::IfThenElse(full, x.high, x.middle);
      x.high = hn::IfThenZeroElse(full, x.high);
      // x + start + q * (256 - f) is 256 q + (x - q f + start), of which the bracket is below 256.
      Bytes lower, upper;
      divider.Divide(x, index, lower, upper);
      x.low = hn::Add(MulSubBytes(x.low, lower, f), hn::TableLookupBytes(starts, index));
      x.middle = lower;
      x.high = upper;
    }
  }
  for (std::size_t g = 0; g < kGroups; ++g) StoreStates(state[g], states + kGroup * g);
  return at;
}

// Gives lane after lane of the mask the next byte from `at`; other lanes are of no meaning.
HWY_INLINE Bytes ReadFrom(const std::byte*& at, hn::Mask<U8> mask) {
  const U8 d;
  auto count = hn::VecFromMask(d, mask);  // -(lanes of the mask up to this one)
  count = hn::Add(count, hn::ShiftLeftBytes<1>(d, count));
  count = hn::Add(count, hn::ShiftLeftBytes<2>(d, count));
  count = hn::Add(count, hn::ShiftLeftBytes<4>(d, count));
  count = hn::Add(count, hn::ShiftLeftBytes<8>(d, count));
  const auto next = hn::LoadU(d, reinterpret_cast<const std::uint8_t*>(at));
  at += static_cast<std::uint8_t>(0 - hn::ExtractLane(count, kGroup - 1));
  return hn::TableLookupBytesOr0(next, hn::Not(count));
}

// kStarts: room for the symbols but one.
template <std::size_t kStarts>
const std::byte* DecodeSteps(const RansDecoderTables& t, const Source& source, std::uint8_t* codes,
                             std::size_t steps, std::uint32_t* states, std::size_t& done) {
  const U8 d;
  const auto frequencies = ByteRow(t.frequencies), starts = ByteRow(t.starts);
  const auto last = hn::Set(d, static_cast<std::uint8_t>(t.symbols - 1));
  Bytes start[kStarts];  // 0, which is above nothing, where there is no symbol
  for (std::size_t k = 0; k < kStarts; ++k)
    start[k] = hn::Set(d, static_cast<std::uint8_t>(k + 1 < t.symbols ? t.starts[k + 1] : 0));
  States state[kGroups];
  for (std::size_t g = 0; g < kGroups; ++g) state[g] = LoadStates(states + kGroup * g);
  const std::byte* at = source.begin;
  const std::byte* const end = source.begin + source.size;
  std::size_t s = 0;
  for (; s < steps && end - at >= static_cast<std::ptrdiff_t>(kRansLanes); ++s) {
    for (std::size_t g = 0; g < kGroups; ++g) {
      States& x = state[g];
      auto index = last;
      for (std::size_t k = 0; k < kStarts; ++k)
        index = hn::Add(index, hn::VecFromMask(d, hn::Gt(start[k], x.low)));
      hn::StoreU(index, d, codes + s * kRansLanes + kGroup * g);
      const auto f = hn::TableLookupBytes(frequencies, index);
      const auto offset = hn::Sub(x.low, hn::TableLookupBytes(starts, index));
      const Words lower = MulAddBytes(f, x.middle, offset);
      const Words upper = MulAddUpperBytes(f, x.high, lower);
      const auto bytes = [&](hn::Vec<U16> words) HWY_ATTR { return hn::BitCast(d, words); };
      x.low = hn::ConcatEven(d, bytes(lower.upper), bytes(lower.lower));
      x.middle = hn::ConcatEven(d, bytes(upper.upper), bytes(upper.lower));
      x.high = hn::ConcatOdd(d, bytes(upper.upper), bytes(upper.lower));
      // A state below 2^16 takes a byte.
      const auto refill = hn::Eq(x.high, hn::Zero(d));
      const auto next = ReadFrom(at, refill);
      x.high = hn::IfThenElse(refill, x.middle, x.high);
      x.middle = hn::IfThenElse(refill, x.low, x.middle);
      x.low = hn::IfThenElse(refill, next, x.low);
    }
  }
  for (std::size_t g = 0; g < kGroups; ++g) StoreStates(state[g], states + kGroup * g);
  done = s;
  return at;
}

void DecodeFullSteps(const RansDecoderTables& t, Source& source, std::uint8_t* codes,
                     std::size_t steps, std::uint32_t* states) {
  std::size_t done = 0;
  const std::byte* const at = t.symbols <= 8
                                  ? DecodeSteps<7>(t, source, codes, steps, states, done)
                                  : DecodeSteps<15>(t, source, codes, steps, states, done);
  DecodeLastSteps(t, source, at, codes, done, steps, states);
}

}  // namespace
}  // namespace eqt::codec::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif

#endif  // guard
