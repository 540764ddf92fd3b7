// SPDX-License-Identifier: Apache-2.0
// Those of level_kernels.hpp that take whole blocks of fixed coding.

#include "codec/levels/level_kernels.hpp"

#include <array>
#include <cstdint>
#include <cstring>

#include "core/error.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "codec/levels/block_kernels.cpp"
#include "hwy/foreach_target.h"  // must precede highway.h
#include "hwy/highway.h"

#include "codec/levels/block_adder-inl.hpp"
#include "codec/prefetch.hpp"
#include "codec/vectors-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace eqt::codec {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using Codes = hn::Rebind<std::uint8_t, U32>;

template <int kBits>
void PackBlock(const std::uint8_t* codes, std::size_t column, std::byte* packed) {
  const U32 d;
  const Codes dc;
  auto words = hn::Zero(d);
#pragma GCC unroll 32
  for (std::size_t row = 0; row < kRows<kBits>; ++row) {
    const auto code = hn::PromoteTo(d, hn::LoadU(dc, codes + 16 * row + column));
    const auto index = hn::And(code, hn::Set(d, (1u << (kBits - 1)) - 1));
    const auto both = hn::Or(index, hn::ShiftLeft<kBits - 1>(hn::ShiftRight<7>(code)));
    const int bit = static_cast<int>(row) * kBits % 32;
    words = hn::Or(words, hn::ShiftLeftSame(both, bit));
    if (bit + kBits < 32) continue;
    store_bytes(words, d, packed + 4 * column);
    packed += kBlockWordBytes;
    words = bit + kBits == 32 ? hn::Zero(d) : hn::ShiftRightSame(both, 32 - bit);
  }
}

// Adds as many buckets at a time as registers can hold, for widths whose columns have one word. So
// each value of the sum is read and written once.
template <int kBits, std::size_t kCount>
void AddBlocksOf(const std::byte* const* packed, const ValueTable<kBits>* tables,
                 std::size_t column, float* sum) {
  const F32 d;
  const U32 du;
  hn::Vec<U32> words[kCount];
  for (std::size_t k = 0; k < kCount; ++k) words[k] = load_bytes(du, packed[k] + 4 * column);
  for (std::size_t row = 0; row < kRows<kBits>; ++row) {
    float* at = sum + 16 * row + column;
    auto total = hn::LoadU(d, at);
    for (std::size_t k = 0; k < kCount; ++k) {
      total = hn::Add(total, tables[k].At(words[k]));
      words[k] = hn::ShiftRight<kBits>(words[k]);
    }
    hn::StoreU(total, d, at);
  }
}

template <int kBits>
void AddOne(const PackedBucket& bucket, std::size_t blocks, float* sum) {
  constexpr std::size_t kValues = block_values(kBits);
  const FastBlockAdder<kBits> adder(bucket.value);
  for (std::size_t b = 0; b < blocks; ++b) {
    prefetch_pages(sum + kValues * b, kValues);
    adder.Add(bucket.packed + fixed_bytes(kValues, kBits) * b, sum + kValues * b);
  }
}

template <int kBits, std::size_t kCount>
void AddSome(const PackedBucket* buckets, std::size_t blocks, float* sum) {
  if constexpr (32 % kBits != 0 || !ValueTable<kBits>::kHalf || kCount == 1) {
    for (std::size_t k = 0; k < kCount; ++k) AddOne<kBits>(buckets[k], blocks, sum);
  } else {
    const std::byte* packed[kCount];
    ValueTable<kBits> tables[kCount];
    for (std::size_t k = 0; k < kCount; ++k) {
      packed[k] = buckets[k].packed;
      tables[k] = ValueTable<kBits>(buckets[k].value);
    }
    for (std::size_t b = 0; b < blocks; ++b, sum += block_values(kBits)) {
      prefetch_pages(sum, block_values(kBits));
      for (std::size_t column = 0; column < 16; column += kLanes) {
        AddBlocksOf<kBits, kCount>(packed, tables, column, sum);
      }
      for (auto& from : packed) from += kBlockWordBytes;
    }
  }
}

template <int kBits>
void AddAll(std::span<const PackedBucket> buckets, std::span<float> sum) {
  const std::size_t blocks = sum.size() / block_values(kBits);
  const PackedBucket* next = buckets.data();
  std::size_t left = buckets.size();
  for (; left >= 8; left -= 8, next += 8) AddSome<kBits, 8>(next, blocks, sum.data());
  if (left >= 4) {
    AddSome<kBits, 4>(next, blocks, sum.data());
    left -= 4;
    next += 4;
  }
  if (left >= 2) {
    AddSome<kBits, 2>(next, blocks, sum.data());
    left -= 2;
    next += 2;
  }
  if (left == 1) AddSome<kBits, 1>(next, blocks, sum.data());
}

void PackBlocks(std::span<const LevelCode> codes, int bits, std::byte* packed) {
  with_width(bits, [&](auto width) HWY_ATTR {
    constexpr int kBits = decltype(width)::value;
    for (std::size_t i = 0; i < codes.size(); i += block_values(kBits)) {
      for (std::size_t column = 0; column < 16; column += kLanes) {
        PackBlock<kBits>(codes.data() + i, column, packed + fixed_bytes(i, kBits));
      }
    }
  });
}

void AddBlocks(std::span<const PackedBucket> buckets, int bits, std::span<float> sum) {
  with_width(bits, [&](auto width) HWY_ATTR { AddAll<decltype(width)::value>(buckets, sum); });
}

void AddCodes(const std::uint8_t* codes, const float* value, float* sum, std::size_t count) {
  const F32 d;
  const I32 di;
  std::size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    const auto index = hn::PromoteTo(di, hn::LoadU(Codes(), codes + i));
    const auto decoded = hn::GatherIndex(d, value, index);
    hn::StoreU(hn::Add(hn::LoadU(d, sum + i), decoded), d, sum + i);
  }
  for (; i < count; ++i) sum[i] += value[codes[i]];
}

#if HWY_TARGET != HWY_SCALAR
// AddFewCodes() with registers of four lanes.
HWY_INLINE void AddFewCodesByPlanes(const std::uint8_t* codes, const float* value, float* sum,
                                    std::size_t count) {
  const hn::Full128<std::uint8_t> d;
  float few[16];
  for (std::size_t k = 0; k < 16; ++k) few[k] = value[(k & 7) | (k >> 3) << 7];
  const NibblePlanes planes(few);
  std::size_t i = 0;
  for (; i + 16 <= count; i += 16) {
    const auto code = hn::LoadU(d, codes + i);
    const auto nibble = hn::And(hn::Or(code, hn::ShiftRight<4>(code)), hn::Set(d, 0x0F));
    planes.AddRows<4>(nibble, sum + i);
  }
  AddCodes(codes + i, value, sum + i, count - i);
}
#endif

// Indices below 8: magnitudes are looked up in a register.
void AddFewCodes(const std::uint8_t* codes, const float* value, float* sum, std::size_t count) {
#if HWY_TARGET != HWY_SCALAR
  if constexpr (kLanes == 4) return AddFewCodesByPlanes(codes, value, sum, count);
#endif
  if constexpr (kLanes < 8) return AddCodes(codes, value, sum, count);
  const F32 d;
  const U32 du;
  const Codes dc;
  alignas(64) float lanes[kLanes] = {};
  for (std::size_t k = 0; k < 8 && k < kLanes; ++k) lanes[k] = value[k];
  const auto table = hn::Load(d, lanes);
  std::size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    if (i % 64 == 0) prefetch_pages(sum + i, 64);
    const auto code = hn::PromoteTo(du, hn::LoadU(dc, codes + i));
    const auto index = hn::IndicesFromVec(d, hn::And(code, hn::Set(du, 7)));
    const auto sign = hn::ShiftLeft<31>(hn::ShiftRight<7>(code));
    const auto decoded = hn::Xor(hn::TableLookupLanes(table, index), hn::BitCast(d, sign));
    hn::StoreU(hn::Add(hn::LoadU(d, sum + i), decoded), d, sum + i);
  }
  for (; i < count; ++i) sum[i] += value[codes[i]];
}

}  // namespace HWY_NAMESPACE
}  // namespace eqt::codec
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace eqt::codec {

HWY_EXPORT(PackBlocks);
HWY_EXPORT(AddBlocks);
HWY_EXPORT(AddCodes);
HWY_EXPORT(AddFewCodes);

namespace {

void check_blocks(std::size_t bytes, int bits, std::size_t count) {
  EQT_CHECK(bits >= 2 && bits <= 8, "codes of {} bits", bits);
  EQT_CHECK(count % block_values(bits) == 0, "blocks of {} bits in {} values", bits, count);
  EQT_CHECK(bytes == fixed_bytes(count, bits), "{} bytes for {} codes of {} bits", bytes, count,
            bits);
}

}  // namespace

void pack_blocks(std::span<const LevelCode> codes, int bits, std::span<std::byte> packed) {
  check_blocks(packed.size(), bits, codes.size());
  HWY_DYNAMIC_DISPATCH(PackBlocks)(codes, bits, packed.data());
}

void add_blocks(std::span<const PackedBucket> buckets, int bits, std::span<float> sum) {
  check_blocks(fixed_bytes(sum.size(), bits), bits, sum.size());
  HWY_DYNAMIC_DISPATCH(AddBlocks)(buckets, bits, sum);
}

void add_codes(std::span<const LevelCode> codes, int bits, const float (&value)[256],
               std::span<float> sum) {
  EQT_CHECK(codes.size() == sum.size(), "{} codes for {} values", codes.size(), sum.size());
  if (bits <= 4) {
    HWY_DYNAMIC_DISPATCH(AddFewCodes)(codes.data(), value, sum.data(), sum.size());
  } else {
    HWY_DYNAMIC_DISPATCH(AddCodes)(codes.data(), value, sum.data(), sum.size());
  }
}

}  // namespace eqt::codec
#endif  // HWY_ONCE
