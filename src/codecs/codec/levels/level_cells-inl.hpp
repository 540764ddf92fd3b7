// SPDX-License-Identifier: Apache-2.0
// Finds the cell of r and its line; one class for each kind of table and register width. Included
// once per vector target, inside the files that Highway compiles for each.

#include <hwy/highway.h>

#include <bit>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "codec/levels/level_table.hpp"
#include "codec/vectors-inl.hpp"

// Either both or neither is defined: the guard flips with each target.
#if defined(EQT_CODEC_LEVEL_CELLS_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef EQT_CODEC_LEVEL_CELLS_INL_HPP
#undef EQT_CODEC_LEVEL_CELLS_INL_HPP
#else
#define EQT_CODEC_LEVEL_CELLS_INL_HPP
#endif

HWY_BEFORE_NAMESPACE();
namespace eqt::codec::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// ConvertTo() for 0 <= x < 2^31 only.
HWY_INLINE hn::Vec<I32> TruncateInRange(hn::Vec<F32> x) {
#if HWY_TARGET <= HWY_AVX3
  return hn::Vec<I32>{_mm512_cvttps_epi32(x.raw)};
#elif HWY_TARGET == HWY_AVX2
  return hn::Vec<I32>{_mm256_cvttps_epi32(x.raw)};
#elif HWY_TARGET == HWY_SSE4 || HWY_TARGET == HWY_SSSE3
  return hn::Vec<I32>{_mm_cvttps_epi32(x.raw)};
#else
  return hn::ConvertTo(I32(), x);
#endif
}

// Each computes trunc(f(r) * 2^(32 - bits)).
struct UniformCells {
  explicit UniformCells(const LevelTable&, float /*scale*/) {}
  HWY_INLINE hn::Vec<I32> Map(hn::Vec<F32> r) const { return TruncateInRange(r); }
};

// Levels 2^(j-n), with r given as R = 2^n r: bits(R + max(R, 2)) grow linearly within each cell,
// the first one included, and their exponent is 128 there, which the shift removes. kBits: those of
// the table, or 0 if they are known only at run time.
template <int kBits>
struct PowerCells {
  explicit PowerCells(const LevelTable& table) : shift(9 - table.bits) {}

  HWY_INLINE hn::Vec<I32> Map(hn::Vec<F32> r) const {
    const F32 d;
    const auto x = hn::BitCast(I32(), hn::Add(r, hn::Max(r, hn::Set(d, 2.0f))));
    if constexpr (kBits > 0) return hn::ShiftLeft<9 - kBits>(x);
    return hn::ShiftLeftSame(x, shift);
  }

  int shift;
};

// Lines of at most kLanes cells, in registers.
struct RegisterLines {
  RegisterLines(const LevelTable& table, float scale) {
    const F32 d;
    slope = hn::Mul(hn::LoadU(d, table.slope.data()), hn::Set(d, scale));
    offset = hn::Mul(hn::LoadU(d, table.offset.data()), hn::Set(d, scale));
  }

  HWY_INLINE hn::Vec<I32> At(hn::Vec<I32> cell, hn::Vec<F32> r) const {
    const F32 d;
    const auto index = hn::IndicesFromVec(d, cell);
    return TruncateInRange(hn::Add(hn::TableLookupLanes(offset, index),
                                   hn::Mul(hn::TableLookupLanes(slope, index), r)));
  }

  hn::Vec<F32> slope, offset;
};

#if HWY_TARGET <= HWY_AVX3
// These cells have at most 16 keys. Permutations of 16 lanes use only the low four bits of an
// index, so the key needs no mask. kShift is registers.shift.
template <int kShift>
struct KeyedRegisterCells {
  KeyedRegisterCells(const LevelTable& table, float scale) : lines(table, scale) {
    const F32 d;
    const I32 di;
    least = hn::Set(d, table.registers.least);
    threshold = hn::LoadU(d, table.registers.threshold.data());
    base = hn::LoadU(di, table.registers.base.data());
  }

  HWY_INLINE hn::Vec<I32> Map(hn::Vec<F32> r) const {
    const I32 di;
    const auto key = hn::ShiftRight<kShift>(hn::BitCast(di, hn::Max(r, least)));
    const hn::Vec<F32> bound{_mm512_permutexvar_ps(key.raw, threshold.raw)};
    const hn::Vec<I32> lower{_mm512_permutexvar_epi32(key.raw, base.raw)};
    const auto reached = hn::RebindMask(di, hn::Ge(r, bound));
    return lines.At(hn::IfThenElse(reached, hn::Add(lower, hn::Set(di, 1)), lower), r);
  }

  RegisterLines lines;
  hn::Vec<F32> least, threshold;
  hn::Vec<I32> base;
};
#endif

#if HWY_TARGET == HWY_AVX2
// These cells are found by table.cell_keys. Permutations of 8 lanes use only the low three bits of
// an index, so lines and bounds stand where their keys say, modulo 8.
class CellKeyCells {
 public:
  CellKeyCells(const LevelTable& table, float scale) {
    const F32 d;
    const LevelTable::CellKeys& keys = *table.cell_keys;
    alignas(32) float slopes[8], offsets[8], bounds[8];
    for (std::uint32_t j = 0; j < 8; ++j) {
      const std::uint32_t at = (keys.first + j) % 8;
      slopes[at] = table.slope[j] * scale;
      offsets[at] = table.offset[j] * scale;
      // r = 1 belongs to the last cell.
      bounds[at] = j < static_cast<std::uint32_t>(table.count) ? table.level[j]
                                                               : std::bit_cast<float>(0x7F800000);
    }
    slope_ = hn::Load(d, slopes);
    offset_ = hn::Load(d, offsets);
    bound_ = hn::Load(d, bounds);
    shifted_ = hn::Set(d, keys.shifted);
    factor_ = hn::BitCast(U16(), hn::Set(U32(), std::uint32_t{keys.factor} << 16));
  }

  HWY_INLINE hn::Vec<I32> Map(hn::Vec<F32> r) const {
    const F32 d;
    const I32 di;
    const auto product = hn::MulHigh(hn::BitCast(U16(), hn::Add(r, shifted_)), factor_);
    const auto key = hn::ShiftRight<16>(hn::BitCast(di, product));
    const auto below = hn::VecFromMask(d, hn::Lt(r, At(bound_, key)));
    const auto cell = hn::Add(key, hn::BitCast(di, below));
    return TruncateInRange(hn::Add(At(offset_, cell), hn::Mul(At(slope_, cell), r)));
  }

 private:
  using U16 = hn::Repartition<std::uint16_t, F32>;

  static HWY_INLINE hn::Vec<F32> At(hn::Vec<F32> table, hn::Vec<I32> key) {
    return hn::Vec<F32>{_mm256_permutevar8x32_ps(table.raw, key.raw)};
  }

  hn::Vec<F32> slope_, offset_, bound_, shifted_;
  hn::Vec<U16> factor_;
};
#endif

// Binary search by permutations of registers finds one of at most 2^kSteps <= kLanes cells.
template <int kSteps>
struct SearchedRegisterCells {
  SearchedRegisterCells(const LevelTable& table, float scale) : lines(table, scale) {
    const F32 d;
    // l_n = 1 is not a bound: r = 1 belongs to the last cell.
    const auto cells = hn::Set(d, static_cast<float>(table.count));
    bounds = hn::IfThenElse(hn::Lt(hn::Iota(d, 0.0f), cells), hn::LoadU(d, table.level.data()),
                            hn::Set(d, std::bit_cast<float>(0x7F800000)));
  }

  HWY_INLINE hn::Vec<I32> Map(hn::Vec<F32> r) const {
    const F32 d;
    const I32 di;
    auto lower = hn::Zero(di);
    for (int step = 1 << kSteps >> 1; step > 0; step >>= 1) {
      const auto probe = hn::Add(lower, hn::Set(di, step));
      const auto bound = hn::TableLookupLanes(bounds, hn::IndicesFromVec(d, probe));
      lower = hn::IfThenElse(hn::RebindMask(di, hn::Ge(r, bound)), probe, lower);
    }
    return lines.At(lower, r);
  }

  RegisterLines lines;
  hn::Vec<F32> bounds;
};

#if HWY_TARGET == HWY_NEON && HWY_ARCH_ARM_A64
// Counts the levels that r reaches, for at most 7 cells, and looks up the bytes of slope and
// offset. It uses intrinsics, because Highway looks up bytes of one register only, and these fill
// two.
class CountedCells {
 public:
  static constexpr std::size_t kCells = 7;

  CountedCells(const LevelTable& table, float scale) {
    const auto cells = static_cast<std::size_t>(table.count);
    // In falling order, for the negative counts of Map().
    float slope[8] = {}, offset[8] = {};
    for (std::size_t j = 0; j < cells; ++j) {
      slope[kCells - j] = table.slope[j] * scale;
      offset[kCells - j] = table.offset[j] * scale;
    }
    for (int half = 0; half < 2; ++half) {
      slope_.val[half] = vreinterpretq_u8_f32(vld1q_f32(slope + 4 * half));
      offset_.val[half] = vreinterpretq_u8_f32(vld1q_f32(offset + 4 * half));
    }
    // r = 1 belongs to the last cell.
    for (std::size_t j = 1; j < kCells; ++j)
      bound_[j] =
          hn::Set(I32(), j < cells ? std::bit_cast<std::int32_t>(table.level[j]) : 0x7F800000);
  }

  HWY_INLINE hn::Vec<I32> Map(hn::Vec<F32> r) const {
    // Values are compared as integers, which have the same order and take half as long on some
    // cores.
    const auto bits = hn::BitCast(I32(), r);
    const auto reached = [&](std::size_t j) HWY_ATTR {
      return vreinterpretq_u8_u32(vcgeq_s32(bits.raw, bound_[j].raw));
    };
    const auto three = vaddq_u8(vaddq_u8(reached(1), reached(2)), reached(3));
    const auto others = vaddq_u8(vaddq_u8(reached(4), reached(5)), reached(6));
    // Each byte is -cell; byte k of a line is 4 * (kCells - cell) + k.
    const auto first = vreinterpretq_u8_u32(vdupq_n_u32(0x03020100 + 0x04040404 * kCells));
    const auto byte = vaddq_u8(vshlq_n_u8(vaddq_u8(three, others), 2), first);
    const hn::Vec<F32> slope{vreinterpretq_f32_u8(vqtbl2q_u8(slope_, byte))};
    const hn::Vec<F32> offset{vreinterpretq_f32_u8(vqtbl2q_u8(offset_, byte))};
    return TruncateInRange(hn::Add(offset, hn::Mul(slope, r)));
  }

 private:
  uint8x16x2_t slope_, offset_;
  hn::Vec<I32> bound_[kCells];
};
#endif

// Makes one comparison per level, for at most 8 cells in short registers.
struct FewCells {
  FewCells(const LevelTable& t, float s) : table(t), scale(s) {}

  HWY_INLINE hn::Vec<I32> Map(hn::Vec<F32> r) const {
    const F32 d;
    auto slope = hn::Set(d, table.slope[0]);
    auto offset = hn::Zero(d);
    for (std::size_t j = 1; j < static_cast<std::size_t>(table.count); ++j) {
      const auto reached = hn::Ge(r, hn::Set(d, table.level[j]));
      slope = hn::IfThenElse(reached, hn::Set(d, table.slope[j]), slope);
      offset = hn::IfThenElse(reached, hn::Set(d, table.offset[j]), offset);
    }
    return TruncateInRange(hn::Mul(hn::Add(offset, hn::Mul(slope, r)), hn::Set(d, scale)));
  }

  const LevelTable& table;
  float scale;
};

// Finds the cells of any table.
struct GatheredCells {
  GatheredCells(const LevelTable& t, float s) : table(t), scale(s) {}

  HWY_INLINE hn::Vec<I32> Map(hn::Vec<F32> r) const {
    const F32 d;
    const I32 di;
    const auto last = static_cast<std::int32_t>(table.base.size()) - 1;
    auto key = hn::ShiftRightSame(hn::BitCast(di, r), table.shift);
    key = hn::Sub(key, hn::Set(di, table.first_key));
    key = hn::Min(hn::Max(key, hn::Zero(di)), hn::Set(di, last));
    const auto reached = hn::Ge(r, hn::GatherIndex(d, table.threshold.data(), key));
    auto cell = hn::GatherIndex(di, table.base.data(), key);
    cell = hn::Sub(cell, hn::VecFromMask(di, hn::RebindMask(di, reached)));
    const auto slope = hn::GatherIndex(d, table.slope.data(), cell);
    const auto offset = hn::GatherIndex(d, table.offset.data(), cell);
    return TruncateInRange(hn::Mul(hn::Add(offset, hn::Mul(slope, r)), hn::Set(d, scale)));
  }

  const LevelTable& table;
  float scale;
};

// Calls `run` with the fastest class for this table and these registers. kBits: those of the table,
// which leave few classes to compile; or 0 if they are known only at run time.
template <int kBits, typename Run>
HWY_INLINE void WithCells(const LevelTable& table, const Run& run) {
  constexpr std::size_t kMostCells = kBits == 0 ? 127 : (std::size_t{1} << (kBits - 1)) - 1;
  // The lines of so few cells may fit into one register.
  constexpr bool kMayBeShort = kBits == 0 || kMostCells <= 16;
  const float scale = std::bit_cast<float>((127u + 32u - static_cast<std::uint32_t>(table.bits))
                                           << 23);  // 2^(32 - bits)
  if (table.uniform) return run(UniformCells(table, scale), scale);
  if (table.powers) {
    const float top = std::bit_cast<float>((127u + static_cast<std::uint32_t>(table.count)) << 23);
    if constexpr (kBits == 0 || kBits == 4) {
      if (table.bits == 4) return run(PowerCells<4>(table), top);
    }
    if constexpr (kBits != 4) return run(PowerCells<0>(table), top);
  }
  if constexpr (kMayBeShort) {
#if HWY_TARGET <= HWY_AVX3
    const bool keyed = table.fits_registers && table.count <= 16;
    if (keyed && table.registers.shift == 23) {
      return run(KeyedRegisterCells<23>(table, scale), 1.0f);
    }
    if (keyed && table.registers.shift == 22) {
      return run(KeyedRegisterCells<22>(table, scale), 1.0f);
    }
#endif
#if HWY_TARGET == HWY_AVX2
    if (table.cell_keys) return run(CellKeyCells(table, scale), 1.0f);
#endif
    if constexpr (kLanes >= 16) {
      if (table.count <= 16) return run(SearchedRegisterCells<4>(table, scale), 1.0f);
    } else if constexpr (kLanes == 8) {
      if (table.count <= 8) return run(SearchedRegisterCells<3>(table, scale), 1.0f);
    } else {
#if HWY_TARGET == HWY_NEON && HWY_ARCH_ARM_A64
      if (table.count <= 7) return run(CountedCells(table, scale), 1.0f);
#endif
      if (table.count <= 8) return run(FewCells(table, scale), 1.0f);
    }
  }
  if constexpr (kMostCells > 7) run(GatheredCells(table, scale), 1.0f);
}

// Calls `run` with the bits of a table whose codes are packed in whole blocks, as a type.
template <typename Run>
HWY_INLINE void WithBits(const LevelTable& table, const Run& run) {
  if (table.bits == 2) return run(std::integral_constant<int, 2>());
  if (table.bits == 4) return run(std::integral_constant<int, 4>());
  run(std::integral_constant<int, 8>());
}

}  // namespace eqt::codec::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // guard
