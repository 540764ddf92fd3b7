// SPDX-License-Identifier: Apache-2.0
#include "codec/levels/block_kernels.hpp"

#include <array>
#include <cstdint>
#include <cstring>

#include "core/error.hpp"

#define HWY_WANT_SSE4 1
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "codec/levels/block_kernels.cpp"
#include "hwy/foreach_target.h"  // must precede highway.h
#include "hwy/highway.h"

#include "codec/levels/nibble_planes-inl.hpp"
#include "codec/prefetch.hpp"
#include "codec/unaligned-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace eqt::codec {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using F32 = hn::ScalableTag<float>;
using U32 = hn::ScalableTag<std::uint32_t>;
using I32 = hn::ScalableTag<std::int32_t>;
using Codes = hn::Rebind<std::uint8_t, U32>;
constexpr std::size_t kLanes = hn::MaxLanes(F32());
constexpr std::size_t kBlockWordBytes = 64;  // the 16 columns' words of one kind

template <int kBits>
constexpr std::size_t kRows = block_values(kBits) / 16;

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

// Calls visit(row, codes) for every row of a block's column group. The code is in the low bits;
// above it is the next row's code, unless the width is odd.
template <int kBits, typename Visit>
HWY_INLINE void ForEachRow(const std::byte* packed, std::size_t column, const Visit& visit) {
  const U32 d;
  const auto mask = hn::Set(d, (1u << kBits) - 1);
  packed += 4 * column;
  auto words = load_bytes(d, packed);
#pragma GCC unroll 32
  for (std::size_t row = 0; row < kRows<kBits>; ++row) {
    const int bit = static_cast<int>(row) * kBits % 32;
    auto code = hn::ShiftRightSame(words, bit);
    if (bit + kBits >= 32 && row + 1 < kRows<kBits>) {
      packed += kBlockWordBytes;
      words = load_bytes(d, packed);
      if (bit + kBits > 32) code = hn::Or(code, hn::ShiftLeftSame(words, 32 - bit));
    }
    visit(row, hn::And(code, mask));
  }
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
    const F32 d;
    if constexpr (!kHalf) return;
    alignas(64) float lanes[kLanes] = {};
    std::memcpy(lanes, value, sizeof(float) << (kWhole ? kBits : kBits - 1));
    table_ = hn::Load(d, lanes);
  }

  HWY_INLINE hn::Vec<F32> At(hn::Vec<U32> code) const {
    const F32 d;
    const U32 du;
    if constexpr (kWhole) {
      return hn::TableLookupLanes(table_, hn::IndicesFromVec(d, code));
    } else if constexpr (kHalf) {
      const auto index = hn::And(code, hn::Set(du, (1u << (kBits - 1)) - 1));
      const auto sign = hn::ShiftLeft<31>(hn::ShiftRight<kBits - 1>(code));
      const auto magnitude = hn::TableLookupLanes(table_, hn::IndicesFromVec(d, index));
      return hn::Xor(magnitude, hn::BitCast(d, sign));
    } else {
      return hn::GatherIndex(d, value_, hn::BitCast(I32(), code));
    }
  }

 private:
  const float* value_ = nullptr;
  hn::Vec<F32> table_ = hn::Zero(F32());
};

template <int kBits>
void AddBlock(const std::byte* packed, const ValueTable<kBits>& table, std::size_t column,
              float* sum) {
  const F32 d;
  ForEachRow<kBits>(packed, column, [&](std::size_t row, hn::Vec<U32> code) HWY_ATTR {
    float* at = sum + 16 * row + column;
    hn::StoreU(hn::Add(hn::LoadU(d, at), table.At(code)), d, at);
  });
}

// Adds as many buckets at a time as registers can hold, for widths whose columns have one word. So
// each value of the sum is read and written once.
template <int kBits, std::size_t kCount>
void AddBlocksOf(const std::byte* const* packed, const ValueTable<kBits>* tables,
                 std::size_t column, float* sum) {
  const F32 d;
  const U32 du;
  const auto mask = hn::Set(du, (1u << kBits) - 1);
  hn::Vec<U32> words[kCount];
  for (std::size_t k = 0; k < kCount; ++k) words[k] = load_bytes(du, packed[k] + 4 * column);
  for (std::size_t row = 0; row < kRows<kBits>; ++row) {
    float* at = sum + 16 * row + column;
    auto total = hn::LoadU(d, at);
    for (std::size_t k = 0; k < kCount; ++k) {
      total = hn::Add(total, tables[k].At(hn::And(words[k], mask)));
      words[k] = hn::ShiftRight<kBits>(words[k]);
    }
    hn::StoreU(total, d, at);
  }
}

template <int kBits>
void AddOne(const PackedBucket& bucket, std::size_t blocks, float* sum) {
#if HWY_TARGET != HWY_SCALAR
  if constexpr (kBits == 4 && kLanes == 4) {
    const NibblePlanes planes(bucket.value);
    for (std::size_t b = 0; b < blocks; ++b) {
      for (std::size_t column = 0; column < 16; column += 4) {
        planes.Add(bucket.packed + kBlockWordBytes * b + 4 * column, sum + 128 * b + column);
      }
    }
    return;
  }
#endif
  const ValueTable<kBits> table(bucket.value);
  constexpr std::size_t kBytes = fixed_bytes(block_values(kBits), kBits);
  for (std::size_t b = 0; b < blocks; ++b) {
    prefetch_pages(sum + block_values(kBits) * b, block_values(kBits));
    for (std::size_t column = 0; column < 16; column += kLanes) {
      AddBlock<kBits>(bucket.packed + kBytes * b, table, column, sum + block_values(kBits) * b);
    }
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
