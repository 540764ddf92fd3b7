// SPDX-License-Identifier: Apache-2.0
// Adds the decoded values of packed blocks (fixed_coding.hpp) to sums. Included once per vector
// target, inside the files that Highway compiles for each.

#include <hwy/highway.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "codec/levels/fixed_coding.hpp"
#include "codec/vectors-inl.hpp"

// Either both or neither is defined: the guard flips with each target.
#if defined(EQT_CODEC_BLOCK_ADDER_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef EQT_CODEC_BLOCK_ADDER_INL_HPP
#undef EQT_CODEC_BLOCK_ADDER_INL_HPP
#else
#define EQT_CODEC_BLOCK_ADDER_INL_HPP
#endif

HWY_BEFORE_NAMESPACE();
namespace eqt::codec::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

#if HWY_TARGET != HWY_SCALAR
// This is for codes of 4 bits and registers of four lanes: one byte lookup finds the same byte of
// 16 floats.
class NibblePlanes {
 public:
  explicit NibblePlanes(const float* value) {
    const hn::Full128<std::uint8_t> d;
    alignas(16) std::uint8_t planes[4][16];
    for (std::size_t code = 0; code < 16; ++code) {
      std::uint8_t bytes[4];
      std::memcpy(bytes, value + code, 4);
      for (std::size_t k = 0; k < 4; ++k) planes[k][code] = bytes[k];
    }
    for (std::size_t k = 0; k < 4; ++k) planes_[k] = hn::Load(d, planes[k]);
  }

  // sum[32 m' ...] for the eight rows of four columns.
  HWY_INLINE void Add(const std::byte* packed, float* sum) const {
    const hn::Full128<std::uint8_t> d;
    alignas(16) static constexpr std::uint8_t kByRow[16] = {0, 4, 8,  12, 1, 5, 9,  13,
                                                            2, 6, 10, 14, 3, 7, 11, 15};
    const auto bytes = hn::TableLookupBytes(
        hn::LoadU(d, reinterpret_cast<const std::uint8_t*>(packed)), hn::Load(d, kByRow));
    AddRows<32>(hn::And(bytes, hn::Set(d, 0x0F)), sum);
    AddRows<32>(hn::ShiftRight<4>(bytes), sum + 16);
  }

  // Byte 4 m + c is the code of sum[kStride m + c].
  template <std::size_t kStride>
  HWY_INLINE void AddRows(hn::Vec<hn::Full128<std::uint8_t>> codes, float* sum) const {
    const hn::Full128<std::uint8_t> d;
    const hn::Full128<std::uint16_t> d16;
    const hn::Full128<float> df;
    const auto b0 = hn::TableLookupBytes(planes_[0], codes);
    const auto b1 = hn::TableLookupBytes(planes_[1], codes);
    const auto b2 = hn::TableLookupBytes(planes_[2], codes);
    const auto b3 = hn::TableLookupBytes(planes_[3], codes);
    const auto low01 = hn::BitCast(d16, hn::InterleaveLower(d, b0, b1));
    const auto low23 = hn::BitCast(d16, hn::InterleaveLower(d, b2, b3));
    const auto high01 = hn::BitCast(d16, hn::InterleaveUpper(d, b0, b1));
    const auto high23 = hn::BitCast(d16, hn::InterleaveUpper(d, b2, b3));
    const auto add = [&](auto halves, float* at) HWY_ATTR {
      hn::StoreU(hn::Add(hn::LoadU(df, at), hn::BitCast(df, halves)), df, at);
    };
    add(hn::InterleaveLower(d16, low01, low23), sum);
    add(hn::InterleaveUpper(d16, low01, low23), sum + kStride);
    add(hn::InterleaveLower(d16, high01, high23), sum + 2 * kStride);
    add(hn::InterleaveUpper(d16, high01, high23), sum + 3 * kStride);
  }

 private:
  hn::Vec<hn::Full128<std::uint8_t>> planes_[4];
};
#endif

constexpr std::size_t kBlockWordBytes = 64;  // the 16 columns' words of one kind

template <int kBits>
constexpr std::size_t kRows = block_values(kBits) / 16;

// The lane of `table` that the low bits of each index name.
HWY_INLINE hn::Vec<F32> LookUpLowBits(hn::Vec<F32> table, hn::Vec<U32> index) {
#if HWY_TARGET <= HWY_AVX3  // permutations ignore the other bits
  return hn::Vec<F32>{_mm512_permutexvar_ps(index.raw, table.raw)};
#elif HWY_TARGET == HWY_AVX2
  return hn::Vec<F32>{_mm256_permutevar8x32_ps(table.raw, index.raw)};
#else
  const auto low = hn::And(index, hn::Set(U32(), static_cast<std::uint32_t>(kLanes - 1)));
  return hn::TableLookupLanes(table, hn::IndicesFromVec(F32(), low));
#endif
}

// value[code] for codes of kBits, from a register if the table fits, else from memory. The second
// half of the values is the first half negated.
template <int kBits>
class ValueTable {
 public:
  static constexpr bool kWhole = (std::size_t{1} << kBits) <= kLanes;
  static constexpr bool kHalf = (std::size_t{1} << (kBits - 1)) <= kLanes;

  ValueTable() = default;
  explicit ValueTable(const float* value) : value_(value) {
    if constexpr (!kHalf) return;
    constexpr std::size_t kValues = std::size_t{1} << (kWhole ? kBits : kBits - 1);
    alignas(64) float lanes[kLanes];
    for (std::size_t i = 0; i < kLanes; ++i) lanes[i] = value[i % kValues];
    table_ = hn::Load(F32(), lanes);
  }

  // Returns the value of the code in the low bits of `codes`. The bits above it may be anything.
  HWY_INLINE hn::Vec<F32> At(hn::Vec<U32> codes) const { return At(codes, codes); }

  // Returns the value of a code. If kHalf, its copy in `shifted` has its highest bit at `bit`.
  HWY_INLINE hn::Vec<F32> At(hn::Vec<U32> codes, hn::Vec<U32> shifted, int bit = kBits - 1) const {
    const F32 d;
    const U32 du;
    if constexpr (kWhole) {
      return LookUpLowBits(table_, codes);
    } else if constexpr (kHalf) {
      const auto sign = hn::And(hn::ShiftLeftSame(shifted, 31 - bit), hn::Set(du, 0x80000000u));
      return hn::Xor(LookUpLowBits(table_, codes), hn::BitCast(d, sign));
    } else {
      const auto code = hn::And(codes, hn::Set(du, (1u << kBits) - 1));
      return hn::GatherIndex(d, value_, hn::BitCast(I32(), code));
    }
  }

 private:
  const float* value_ = nullptr;
  hn::Vec<F32> table_ = hn::Zero(F32());
};

// Adds one block after another.
template <int kBits>
class BlockAdder {
 public:
  // @param value as in PackedBucket
  explicit BlockAdder(const float* value) : table_(value) {}

  HWY_INLINE void Add(const std::byte* packed, float* sum) const {
    if constexpr (32 % kBits == 0) {
      AddRows(packed, sum);
    } else {
      for (std::size_t column = 0; column < 16; column += kLanes) {
        AddColumns(packed + 4 * column, sum + column);
      }
    }
  }

 private:
  static constexpr std::size_t kGroups = 16 / kLanes;

  // Row by row, because values in the order of memory are read from there sooner.
  HWY_INLINE void AddRows(const std::byte* packed, float* sum) const {
    const F32 d;
    const U32 du;
    hn::Vec<U32> words[kGroups];
    for (std::size_t g = 0; g < kGroups; ++g) words[g] = load_bytes(du, packed + 4 * kLanes * g);
#pragma GCC unroll 16
    for (std::size_t row = 0; row < kRows<kBits>; ++row) {
      const int bit = static_cast<int>(row) * kBits;
      for (std::size_t g = 0; g < kGroups; ++g) {
        float* at = sum + 16 * row + kLanes * g;
        const auto codes = hn::ShiftRightSame(words[g], bit);
        const auto value = table_.At(codes, words[g], bit + kBits - 1);
        hn::StoreU(hn::Add(hn::LoadU(d, at), value), d, at);
      }
    }
  }

  // One group of columns. Above a code in the low bits is the next row's, or nothing.
  HWY_INLINE void AddColumns(const std::byte* packed, float* sum) const {
    const F32 d;
    const U32 du;
    auto words = load_bytes(du, packed);
#pragma GCC unroll 32
    for (std::size_t row = 0; row < kRows<kBits>; ++row) {
      const int bit = static_cast<int>(row) * kBits % 32;
      auto code = hn::ShiftRightSame(words, bit);
      if (bit + kBits >= 32 && row + 1 < kRows<kBits>) {
        packed += kBlockWordBytes;
        words = load_bytes(du, packed);
        if (bit + kBits > 32) code = hn::Or(code, hn::ShiftLeftSame(words, 32 - bit));
      }
      float* at = sum + 16 * row;
      hn::StoreU(hn::Add(hn::LoadU(d, at), table_.At(code)), d, at);
    }
  }

  ValueTable<kBits> table_;
};

#if HWY_TARGET != HWY_SCALAR
// This adder is for registers of four lanes.
class NibbleAdder {
 public:
  explicit NibbleAdder(const float* value) : planes_(value) {}

  HWY_INLINE void Add(const std::byte* packed, float* sum) const {
    for (std::size_t column = 0; column < 16; column += 4) {
      planes_.Add(packed + 4 * column, sum + column);
    }
  }

 private:
  NibblePlanes planes_;
};

template <int kBits>
using FastBlockAdder =
    std::conditional_t<kBits == 4 && kLanes == 4, NibbleAdder, BlockAdder<kBits>>;
#else
template <int kBits>
using FastBlockAdder = BlockAdder<kBits>;
#endif

}  // namespace eqt::codec::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // guard
