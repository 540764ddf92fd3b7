// SPDX-License-Identifier: Apache-2.0
#include "codec/levels/level_kernels.hpp"

#include <bit>
#include <cstring>

#include "codec/levels/bucket_scale.hpp"
#include "codec/levels/fixed_coding.hpp"
#include "codec/prefetch.hpp"
#include "core/error.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "codec/levels/level_kernels.cpp"
#include "hwy/foreach_target.h"  // must precede highway.h
#include "hwy/highway.h"

#include "codec/levels/level_cells-inl.hpp"
#include "codec/levels/norms-inl.hpp"
#include "codec/levels/rounder-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace eqt::codec {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using Codes = hn::Rebind<std::uint8_t, U32>;

#if HWY_TARGET != HWY_SCALAR
// 64 values to codes, with registers of four lanes: bytes are collected in the lanes of four
// columns, and then sorted by row.
template <bool kStratified, typename Cells>
HWY_INLINE void QuantizeFourShortRows(const Cells& cells, const Job& job, std::uint32_t first_word,
                                      const std::uint32_t* strata, const float* values,
                                      std::uint8_t* codes) {
  const F32 d;
  const hn::Repartition<std::uint8_t, F32> d8;
  const auto sign = hn::Set(d8, kSignCode), index_bits = hn::Set(d8, std::uint8_t{0x7F});
  hn::Vec<decltype(d8)> columns[4];
  for (std::size_t group = 0; group < 4; ++group) {
    const float* from = values + 4 * group;
    Rounder<0, kStratified, Cells> rounder(cells, job,
                                           first_word + static_cast<std::uint32_t>(4 * group));
    rounder.Draw(kStratified ? strata + 4 * group : nullptr);
    const auto v0 = hn::LoadU(d, from), v1 = hn::LoadU(d, from + 16);
    const auto v2 = hn::LoadU(d, from + 32), v3 = hn::LoadU(d, from + 48);
    auto words = WithSign(rounder.template Round<0>(v0), v0);
    words = Prepend<8>(WithSign(rounder.template Round<1>(v1), v1), words);
    words = Prepend<8>(WithSign(rounder.template Round<2>(v2), v2), words);
    words = Prepend<8>(WithSign(rounder.template Round<3>(v3), v3), words);
    // The sign, job.bits - 1 bits of the index, the first bits of the fraction.
    const auto bytes = hn::BitCast(d8, words);
    const auto index = hn::ShiftRightSame(hn::And(bytes, index_bits), 8 - job.bits);
    const auto nonzero = hn::VecFromMask(d8, hn::Ne(index, hn::Zero(d8)));
    columns[group] = hn::OrAnd(index, hn::And(bytes, sign), nonzero);
  }
  const auto even0 = hn::ConcatEven(d8, columns[1], columns[0]);
  const auto even1 = hn::ConcatEven(d8, columns[3], columns[2]);
  const auto odd0 = hn::ConcatOdd(d8, columns[1], columns[0]);
  const auto odd1 = hn::ConcatOdd(d8, columns[3], columns[2]);
  hn::StoreU(hn::ConcatEven(d8, even1, even0), d8, codes);
  hn::StoreU(hn::ConcatEven(d8, odd1, odd0), d8, codes + 16);
  hn::StoreU(hn::ConcatOdd(d8, even1, even0), d8, codes + 32);
  hn::StoreU(hn::ConcatOdd(d8, odd1, odd0), d8, codes + 48);
}
#endif

// 64 values to codes.
template <bool kStratified, typename Cells>
HWY_INLINE void QuantizeFourRows(const Cells& cells, const Job& job, std::uint32_t first_word,
                                 const float* values, std::uint8_t* codes) {
  const std::uint32_t* strata = nullptr;
  if constexpr (kStratified) strata = job.stream.strata_of_run(first_word);
#if HWY_TARGET != HWY_SCALAR
  if constexpr (kLanes == 4) {
    return QuantizeFourShortRows<kStratified>(cells, job, first_word, strata, values, codes);
  }
#endif
  const F32 d;
  const U32 du;
  const Codes dc;
  const int fraction = 32 - job.bits;
  for (std::size_t column = 0; column < 16; column += kLanes) {
    Rounder<0, kStratified, Cells> rounder(cells, job,
                                           first_word + static_cast<std::uint32_t>(column));
    rounder.Draw(kStratified ? strata + column : nullptr);
    const auto store = [&](std::size_t row, hn::Vec<F32> v, hn::Vec<U32> rounded) HWY_ATTR {
      const auto index = hn::ShiftRightSame(rounded, fraction);
      const auto sign = hn::And(hn::ShiftRight<24>(hn::BitCast(du, v)), hn::Set(du, kSignCode));
      const auto zero = hn::Eq(index, hn::Zero(du));
      const auto code = hn::Or(index, hn::IfThenZeroElse(zero, sign));
      hn::StoreU(hn::TruncateTo(dc, code), dc, codes + 16 * row + column);
    };
    const auto v0 = hn::LoadU(d, values + column), v1 = hn::LoadU(d, values + column + 16);
    const auto v2 = hn::LoadU(d, values + column + 32), v3 = hn::LoadU(d, values + column + 48);
    store(0, v0, rounder.template Round<0>(v0));
    store(1, v1, rounder.template Round<1>(v1));
    store(2, v2, rounder.template Round<2>(v2));
    store(3, v3, rounder.template Round<3>(v3));
  }
}

template <bool kStratified, typename Cells>
void QuantizeWith(const Cells& cells, const Job& job, const float* values, std::size_t count,
                  std::uint32_t first_word, std::uint8_t* codes) {
  // With what prefetch_pages() adds, this is about 32 KiB ahead: in the next bucket, whose norm is
  // computed next.
  constexpr std::size_t kAhead = 4096;
  std::size_t i = 0;
  for (; i + 64 <= count; i += 64, first_word += 16) {
    prefetch_pages(values + i + kAhead, 64);
    QuantizeFourRows<kStratified>(cells, job, first_word, values + i, codes + i);
  }
  if (i < count) {
    alignas(64) float last[64] = {};
    alignas(64) std::uint8_t last_codes[64];
    std::memcpy(last, values + i, (count - i) * sizeof(float));
    QuantizeFourRows<kStratified>(cells, job, first_word, last, last_codes);
    std::memcpy(codes + i, last_codes, count - i);
  }
}

double BucketSquares(std::span<const float> values) {
  return SumOfSquares(values.data(), values.size());
}

std::uint32_t BucketLargest(std::span<const float> values) {
  return LargestMagnitudeBits(values.data(), values.size());
}

void Quantize(const LevelTable& table, float inverse, const RandomStream& stream,
              std::uint32_t first_word, std::span<const float> values, std::uint8_t* codes) {
  WithCells<0>(table, [&](const auto& cells, float scale) HWY_ATTR {
    const Job job{inverse * scale, table.bits, stream};
    WithStrata(stream, [&](auto stratified) HWY_ATTR {
      constexpr bool kStratified = decltype(stratified)::value;
      QuantizeWith<kStratified>(cells, job, values.data(), values.size(), first_word, codes);
    });
  });
}

void QuantizeAndPack(const LevelTable& table, float inverse, const RandomStream& stream,
                     std::uint32_t first_word, std::span<const float> values, std::byte* packed) {
  const NoNorm nothing;
  const auto ignore = [](std::size_t, const std::byte*) {};
  WithBits(table, [&](auto bits) HWY_ATTR {
    constexpr int kBits = decltype(bits)::value;
    const std::size_t blocks = values.size() / block_values(kBits);
    WithCells<kBits>(table, [&](const auto& cells, float scale) HWY_ATTR {
      const Job job{inverse * scale, table.bits, stream};
      WithStrata(stream, [&](auto stratified) HWY_ATTR {
        constexpr bool kStratified = decltype(stratified)::value;
        QuantizeAndPackWith<kBits, kStratified>(cells, job, values.data(), blocks, first_word,
                                                packed, nothing, ignore);
      });
    });
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace eqt::codec
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace eqt::codec {

HWY_EXPORT(BucketSquares);
HWY_EXPORT(BucketLargest);
HWY_EXPORT(Quantize);
HWY_EXPORT(QuantizeAndPack);

double sum_of_squares(std::span<const float> values) {
  return HWY_DYNAMIC_DISPATCH(BucketSquares)(values);
}

std::uint32_t largest_magnitude_bits(std::span<const float> values) {
  return HWY_DYNAMIC_DISPATCH(BucketLargest)(values);
}

void quantize(std::span<const float> values, float inverse, const LevelTable& table,
              const RandomStream& stream, std::uint32_t first_word, std::span<LevelCode> codes) {
  EQT_CHECK(codes.size() == values.size(), "{} codes for {} values", codes.size(), values.size());
  HWY_DYNAMIC_DISPATCH(Quantize)(table, inverse, stream, first_word, values, codes.data());
}

void quantize_and_pack(std::span<const float> values, float inverse, const LevelTable& table,
                       const RandomStream& stream, std::uint32_t first_word,
                       std::span<std::byte> packed) {
  EQT_CHECK(table.bits == 2 || table.bits == 4 || table.bits == 8, "blocks of {} bits", table.bits);
  EQT_CHECK(values.size() % block_values(table.bits) == 0 &&
                packed.size() == fixed_bytes(values.size(), table.bits),
            "{} bytes for blocks of {} values", packed.size(), values.size());
  HWY_DYNAMIC_DISPATCH(QuantizeAndPack)
  (table, inverse, stream, first_word, values, packed.data());
}

}  // namespace eqt::codec
#endif  // HWY_ONCE
