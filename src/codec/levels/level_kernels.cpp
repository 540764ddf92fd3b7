#include "codec/levels/level_kernels.hpp"

#include <hwy/cache_control.h>
#include <algorithm>
#include <bit>
#include <cstring>
#include <type_traits>

#include "codec/levels/bucket_scale.hpp"
#include "codec/levels/fixed_coding.hpp"
#include "core/error.hpp"

// Scalable vectors (SVE, RVV) have no fixed length at compile time; those machines use NEON or the
// portable target.
#define HWY_DISABLED_TARGETS (HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV)
#define HWY_WANT_SSE4 1
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "codec/levels/level_kernels.cpp"
#include "hwy/foreach_target.h"  // must precede highway.h
#include "hwy/highway.h"

#include "codec/unaligned-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace eqt::codec {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using F32 = hn::ScalableTag<float>;
using U32 = hn::ScalableTag<std::uint32_t>;
using I32 = hn::ScalableTag<std::int32_t>;
using F64 = hn::ScalableTag<double>;
using Codes = hn::Rebind<std::uint8_t, U32>;
constexpr std::size_t kLanes = hn::MaxLanes(F32());

double SumOfSquares(const float* values, std::size_t count) {
  const F64 d;
  const hn::Rebind<float, F64> d_half;
  constexpr std::size_t kStep = hn::MaxLanes(d);
  constexpr std::size_t kSums = kSquareSums / kStep;
  hn::Vec<F64> sums[kSums];
  for (auto& sum : sums) sum = hn::Zero(d);
  // The square of a float is exact in fp64, so it may be fused with the sum.
  const auto add_round = [&](const float* from) HWY_ATTR {
    for (std::size_t k = 0; k < kSums; ++k) {
      const auto v = hn::PromoteTo(d, hn::LoadU(d_half, from + k * kStep));
      sums[k] = hn::MulAdd(v, v, sums[k]);
    }
  };
  std::size_t i = 0;
  for (; i + kSquareSums <= count; i += kSquareSums) add_round(values + i);
  if (i < count) {
    float last[kSquareSums] = {};
    std::memcpy(last, values + i, (count - i) * sizeof(float));
    add_round(last);
  }
  for (std::size_t half = kSums / 2; half > 0; half /= 2) {
    for (std::size_t k = 0; k < half; ++k) sums[k] = hn::Add(sums[k], sums[k + half]);
  }
  alignas(64) double lanes[kStep];
  hn::Store(sums[0], d, lanes);
  for (std::size_t half = kStep / 2; half > 0; half /= 2) {
    for (std::size_t k = 0; k < half; ++k) lanes[k] += lanes[k + half];
  }
  return lanes[0];
}

std::uint32_t LargestMagnitudeBits(const float* values, std::size_t count) {
  // Magnitudes order like their bits, and NaN is above infinity.
  const I32 d;
  const auto mask = hn::Set(d, 0x7FFFFFFF);
  auto largest = hn::Zero(d);
  std::size_t i = 0;
  const auto* from = reinterpret_cast<const std::int32_t*>(values);
  for (; i + kLanes <= count; i += kLanes) {
    largest = hn::Max(largest, hn::And(hn::LoadU(d, from + i), mask));
  }
  auto result = static_cast<std::uint32_t>(hn::GetLane(hn::MaxOfLanes(d, largest)));
  for (; i < count; ++i) {
    const std::uint32_t bits = std::bit_cast<std::uint32_t>(values[i]) & 0x7FFFFFFFu;
    result = bits > result ? bits : result;
  }
  return result;
}

// What all values of a bucket share.
struct Job {
  float inverse;
  int bits;
  const RandomStream& stream;
};

// ConvertTo() for 0 <= x < 2^31 without its care for what lies outside.
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

// trunc(f(r) * 2^(32 - bits)), one policy per kind of table and register width.
struct UniformCells {
  explicit UniformCells(const LevelTable&, float /*scale*/) {}
  HWY_INLINE hn::Vec<I32> Map(hn::Vec<F32> r) const { return TruncateInRange(r); }
};

// Levels 2^(j-n), with r given as R = 2^n r: bits(R + max(R, 2)) grow linearly within each cell,
// the first one included, and their exponent is 128 there, which the shift leaves nothing of.
// kBits: the table's, or 0 if only the table knows.
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
// At most 16 keys. Permutations of 16 lanes look at the low four bits of an index only, so the key
// needs no mask. kShift: registers.shift.
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

// At most 2^kSteps <= kLanes cells: binary search by permutations of registers.
template <int kSteps>
struct SearchedRegisterCells {
  SearchedRegisterCells(const LevelTable& table, float scale) : lines(table, scale) {
    const F32 d;
    // l_n = 1 is no bound: r = 1 belongs to the last cell.
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

// At most 8 cells in short registers: a comparison per level.
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

// Any table.
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

// RandomStream::product() of indices, from their products with its first multiplier.
HWY_INLINE hn::Vec<U32> RandomProducts(hn::Vec<U32> scaled, hn::Vec<U32> second) {
  const U32 d;
  auto h = hn::Mul(hn::Xor(scaled, hn::ShiftRight<16>(scaled)), hn::Set(d, 0x21F0AAADu));
  h = hn::Add(hn::Xor(h, hn::ShiftRight<15>(h)), second);
  return hn::Mul(h, hn::Set(d, 0xD35A2D97u));
}

// Rounds vectors of one column group: the same lanes of successive rows of 16 values.
// kBits: the table's, or 0 if only the job knows.
template <int kBits, typename Cells>
class Rounder {
 public:
  Rounder(const Cells& cells, const Job& job, std::uint32_t first_word)
      : cells_(cells), bits_(job.bits) {
    const F32 d;
    const U32 du;
    inverse_ = hn::Set(d, job.inverse);
    second_ = hn::Set(du, job.stream.second());
    scaled_ = hn::Add(hn::Mul(hn::Iota(du, 0), hn::Set(du, kIndexMultiplier)),
                      hn::Set(du, first_word * kIndexMultiplier + job.stream.first()));
  }

  /// The random words of four rows; then on to the next four.
  HWY_INLINE void Draw() {
    const U32 du;
    word_ = RandomProducts(scaled_, second_);
    scaled_ = hn::Add(scaled_, hn::Set(du, kIndexMultiplier * 16));
  }

  /// Row kRow of four: its indices in the bits above 32 - bits, the fraction below.
  template <int kRow>
  HWY_INLINE hn::Vec<U32> Round(hn::Vec<F32> v) const {
    const U32 du;
    const auto word = kRow == 0 ? word_ : hn::Mul(word_, hn::Set(du, kRowMultiplier[kRow]));
    const auto mapped = cells_.Map(hn::Mul(hn::Abs(v), inverse_));
    const auto fraction = kBits > 0 ? hn::ShiftRight<kBits>(word) : hn::ShiftRightSame(word, bits_);
    return hn::Add(hn::BitCast(du, mapped), fraction);
  }

 private:
  static constexpr std::uint32_t kIndexMultiplier = 0x9E3779B1u;  // RandomStream's

  const Cells& cells_;
  int bits_;
  hn::Vec<F32> inverse_;
  hn::Vec<U32> second_, scaled_, word_;
};

// 64 values to codes.
template <typename Cells>
HWY_INLINE void QuantizeFourRows(const Cells& cells, const Job& job, std::uint32_t first_word,
                                 const float* values, std::uint8_t* codes) {
  const F32 d;
  const U32 du;
  const Codes dc;
  const int fraction = 32 - job.bits;
  for (std::size_t column = 0; column < 16; column += kLanes) {
    Rounder<0, Cells> rounder(cells, job, first_word + static_cast<std::uint32_t>(column));
    rounder.Draw();
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

template <typename Cells>
void QuantizeWith(const Cells& cells, const Job& job, const float* values, std::size_t count,
                  std::uint32_t first_word, std::uint8_t* codes) {
  std::size_t i = 0;
  for (; i + 64 <= count; i += 64, first_word += 16) {
    QuantizeFourRows(cells, job, first_word, values + i, codes + i);
  }
  if (i < count) {
    alignas(64) float last[64] = {};
    alignas(64) std::uint8_t last_codes[64];
    std::memcpy(last, values + i, (count - i) * sizeof(float));
    QuantizeFourRows(cells, job, first_word, last, last_codes);
    std::memcpy(codes + i, last_codes, count - i);
  }
}

// Whole blocks of column packing (fixed_coding.hpp) for the widths that divide 32: no code ever
// leaves its lane. Signs of zeros are cleared in the packed words, where 32 / kBits of them share
// an instruction.
template <int kBits, typename Cells>
void QuantizeAndPackWith(const Cells& cells, const Job& job, const float* values,
                         std::size_t blocks, std::uint32_t first_word, std::byte* packed,
                         std::size_t ahead) {
  const F32 d;
  const U32 du;
  constexpr std::size_t kRows = 32 / kBits;
  constexpr std::uint32_t kTop = ~0u << (32 - kBits);
  constexpr std::uint32_t kIndices = ~0u / ((1u << kBits) - 1) * ((1u << (kBits - 1)) - 1);
  const auto top = hn::Set(du, kTop), indices = hn::Set(du, kIndices);
  const auto sign = hn::Set(du, 0x80000000u);
  for (std::size_t b = 0; b < blocks; ++b, values += 16 * kRows, packed += 64) {
    for (std::size_t row = 0; row < kRows; ++row) hwy::Prefetch(values + ahead + 16 * row);
    const auto block_word = first_word + static_cast<std::uint32_t>(b * kRows * 4);
    for (std::size_t column = 0; column < 16; column += kLanes) {
      Rounder<kBits, Cells> rounder(cells, job, block_word + static_cast<std::uint32_t>(column));
      auto words = hn::Zero(du);
      const auto add = [&](hn::Vec<F32> v, hn::Vec<U32> rounded) HWY_ATTR {
        const auto code = hn::OrAnd(rounded, hn::BitCast(du, v), sign);
        words = hn::OrAnd(hn::ShiftRight<kBits>(words), code, top);
      };
#pragma GCC unroll 4
      for (std::size_t row = 0; row < kRows; row += 4) {
        const float* from = values + 16 * row + column;
        const auto v0 = hn::LoadU(d, from), v1 = hn::LoadU(d, from + 16);
        const auto v2 = hn::LoadU(d, from + 32), v3 = hn::LoadU(d, from + 48);
        rounder.Draw();
        add(v0, rounder.template Round<0>(v0));
        add(v1, rounder.template Round<1>(v1));
        add(v2, rounder.template Round<2>(v2));
        add(v3, rounder.template Round<3>(v3));
      }
      const auto index = hn::And(words, indices);
      const auto nonzero = hn::AndNot(indices, hn::Add(index, indices));
      store_bytes(hn::OrAnd(index, words, nonzero), du, packed + 4 * column);
    }
  }
}

// Calls run with the cells that suit table and registers.
template <typename Run>
HWY_INLINE void WithCells(const LevelTable& table, const Run& run) {
  const float scale = std::bit_cast<float>((127u + 32u - static_cast<std::uint32_t>(table.bits))
                                           << 23);  // 2^(32 - bits)
  if (table.uniform) return run(UniformCells(table, scale), scale);
  if (table.powers) {
    const float top = std::bit_cast<float>((127u + static_cast<std::uint32_t>(table.count)) << 23);
    if (table.bits == 4) return run(PowerCells<4>(table), top);
    return run(PowerCells<0>(table), top);
  }
#if HWY_TARGET <= HWY_AVX3
  if (table.fits_registers && table.registers.shift == 23) {
    return run(KeyedRegisterCells<23>(table, scale), 1.0f);
  }
  if (table.fits_registers && table.registers.shift == 22) {
    return run(KeyedRegisterCells<22>(table, scale), 1.0f);
  }
#endif
  if constexpr (kLanes >= 16) {
    if (table.count <= 16) return run(SearchedRegisterCells<4>(table, scale), 1.0f);
  } else if constexpr (kLanes == 8) {
    if (table.count <= 8) return run(SearchedRegisterCells<3>(table, scale), 1.0f);
  } else {
    if (table.count <= 8) return run(FewCells(table, scale), 1.0f);
  }
  run(GatheredCells(table, scale), 1.0f);
}

void Quantize(const LevelTable& table, float inverse, const RandomStream& stream,
              std::uint32_t first_word, std::span<const float> values, std::uint8_t* codes) {
  WithCells(table, [&](const auto& cells, float scale) HWY_ATTR {
    const Job job{inverse * scale, table.bits, stream};
    QuantizeWith(cells, job, values.data(), values.size(), first_word, codes);
  });
}

// Norms of a few buckets at once: the sum, root and quotient of one hide behind the next one's
// pass.
struct Scales {
  static constexpr std::size_t kMost = 16;
  static constexpr std::size_t kValues = 4096;  // of all of them, which then are in the L1 cache

  std::size_t count = 0;  // of buckets before the first that needs care
  float norm[kMost];
  float inverse[kMost];
};

HWY_INLINE void FindScales(const LevelTable& table, const float* values, std::size_t bucket_size,
                           std::size_t buckets, Norm kind, Scales& scales) {
  for (scales.count = 0; scales.count < buckets; ++scales.count) {
    const float* bucket = values + scales.count * bucket_size;
    float norm;
    if (kind == Norm::l2) {
      const double squares = SumOfSquares(bucket, bucket_size);
      if (!(squares <= static_cast<double>(kLargeNorm) * static_cast<double>(kLargeNorm))) return;
      norm = norm_of_squares(squares);
    } else {
      norm = std::bit_cast<float>(LargestMagnitudeBits(bucket, bucket_size));
    }
    if (norm != 0 && !(norm >= kSmallNorm && norm <= kLargeNorm)) return;
    scales.norm[scales.count] = norm;
    scales.inverse[scales.count] = norm > 0 ? inverse_of(table, norm) : 0;
  }
}

template <int kBits, typename Cells>
EncodedBuckets EncodeBucketsWith(const Cells& cells, float scale, const LevelTable& table,
                                 std::span<const float> values, std::size_t bucket_size, Norm kind,
                                 const RandomStream& stream, std::uint32_t first_word,
                                 std::byte* payload) {
  const std::size_t most = std::clamp<std::size_t>(Scales::kValues / bucket_size, 1, Scales::kMost);
  Scales scales;
  EncodedBuckets done;
  while (done.values < values.size()) {
    const std::size_t wanted = std::min(most, (values.size() - done.values) / bucket_size);
    FindScales(table, values.data() + done.values, bucket_size, wanted, kind, scales);
    for (std::size_t k = 0; k < scales.count; ++k, done.values += bucket_size) {
      std::memcpy(payload + done.bytes, scales.norm + k, sizeof(float));
      done.bytes += sizeof(float);
      if (scales.norm[k] == 0) continue;
      const Job job{scales.inverse[k] * scale, kBits, stream};
      QuantizeAndPackWith<kBits>(cells, job, values.data() + done.values,
                                 bucket_size / block_values(kBits),
                                 first_word + static_cast<std::uint32_t>(done.values),
                                 payload + done.bytes, most * bucket_size);
      done.bytes += fixed_bytes(bucket_size, kBits);
    }
    if (scales.count < wanted) break;
  }
  return done;
}

EncodedBuckets EncodeBuckets(std::span<const float> values, std::size_t bucket_size, Norm norm,
                             const LevelTable& table, const RandomStream& stream,
                             std::uint32_t first_word, std::byte* payload) {
  EncodedBuckets done;
  WithCells(table, [&](const auto& cells, float scale) HWY_ATTR {
    const auto encode = [&](auto bits) HWY_ATTR {
      done = EncodeBucketsWith<decltype(bits)::value>(cells, scale, table, values, bucket_size,
                                                      norm, stream, first_word, payload);
    };
    if (table.bits == 2) return encode(std::integral_constant<int, 2>());
    if (table.bits == 4) return encode(std::integral_constant<int, 4>());
    return encode(std::integral_constant<int, 8>());
  });
  return done;
}

void QuantizeAndPack(const LevelTable& table, float inverse, const RandomStream& stream,
                     std::uint32_t first_word, std::span<const float> values, std::byte* packed,
                     std::size_t ahead) {
  WithCells(table, [&](const auto& cells, float scale) HWY_ATTR {
    const Job job{inverse * scale, table.bits, stream};
    const float* from = values.data();
    const std::size_t blocks = values.size() / block_values(table.bits);
    if (table.bits == 2) {
      QuantizeAndPackWith<2>(cells, job, from, blocks, first_word, packed, ahead);
    } else if (table.bits == 4) {
      QuantizeAndPackWith<4>(cells, job, from, blocks, first_word, packed, ahead);
    } else {
      QuantizeAndPackWith<8>(cells, job, from, blocks, first_word, packed, ahead);
    }
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace eqt::codec
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace eqt::codec {

HWY_EXPORT(SumOfSquares);
HWY_EXPORT(LargestMagnitudeBits);
HWY_EXPORT(Quantize);
HWY_EXPORT(QuantizeAndPack);
HWY_EXPORT(EncodeBuckets);

double sum_of_squares(std::span<const float> values) {
  return HWY_DYNAMIC_DISPATCH(SumOfSquares)(values.data(), values.size());
}

std::uint32_t largest_magnitude_bits(std::span<const float> values) {
  return HWY_DYNAMIC_DISPATCH(LargestMagnitudeBits)(values.data(), values.size());
}

void quantize(std::span<const float> values, float inverse, const LevelTable& table,
              const RandomStream& stream, std::uint32_t first_word, std::span<LevelCode> codes) {
  EQT_CHECK(codes.size() == values.size(), "{} codes for {} values", codes.size(), values.size());
  HWY_DYNAMIC_DISPATCH(Quantize)(table, inverse, stream, first_word, values, codes.data());
}

void quantize_and_pack(std::span<const float> values, float inverse, const LevelTable& table,
                       const RandomStream& stream, std::uint32_t first_word,
                       std::span<std::byte> packed, std::size_t ahead) {
  EQT_CHECK(table.bits == 2 || table.bits == 4 || table.bits == 8, "blocks of {} bits", table.bits);
  EQT_CHECK(values.size() % block_values(table.bits) == 0 &&
                packed.size() == fixed_bytes(values.size(), table.bits),
            "{} bytes for blocks of {} values", packed.size(), values.size());
  HWY_DYNAMIC_DISPATCH(QuantizeAndPack)
  (table, inverse, stream, first_word, values, packed.data(), ahead);
}

EncodedBuckets encode_buckets(std::span<const float> values, std::size_t bucket_size, Norm norm,
                              const LevelTable& table, const RandomStream& stream,
                              std::uint32_t first_word, std::span<std::byte> payload) {
  EQT_CHECK(table.bits == 2 || table.bits == 4 || table.bits == 8, "blocks of {} bits", table.bits);
  EQT_CHECK(bucket_size % block_values(table.bits) == 0 && values.size() % bucket_size == 0,
            "{} values in buckets of {}", values.size(), bucket_size);
  const std::size_t most =
      values.size() / bucket_size * (sizeof(float) + fixed_bytes(bucket_size, table.bits));
  EQT_CHECK(payload.size() >= most, "{} bytes for a payload of {}", payload.size(), most);
  return HWY_DYNAMIC_DISPATCH(EncodeBuckets)(values, bucket_size, norm, table, stream, first_word,
                                             payload.data());
}

}  // namespace eqt::codec
#endif  // HWY_ONCE
