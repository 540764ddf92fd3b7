#include "codec/level_kernels.hpp"

#include <bit>
#include <cstring>

#include "core/error.hpp"

// Scalable vectors (SVE, RVV) have no fixed length at compile time; those machines use NEON or the
// portable target.
#define HWY_DISABLED_TARGETS (HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV)
#define HWY_WANT_SSE4 1
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "codec/level_kernels.cpp"
#include "hwy/foreach_target.h"  // must precede highway.h
#include "hwy/highway.h"

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
  constexpr std::size_t kSums = 16 / kStep;
  hn::Vec<F64> sums[kSums];
  for (auto& sum : sums) sum = hn::Zero(d);
  // The square of a float is exact in fp64.
  const auto add_sixteen = [&](const float* from) HWY_ATTR {
    for (std::size_t k = 0; k < kSums; ++k) {
      const auto v = hn::PromoteTo(d, hn::LoadU(d_half, from + k * kStep));
      sums[k] = hn::Add(sums[k], hn::Mul(v, v));
    }
  };
  std::size_t i = 0;
  for (; i + 16 <= count; i += 16) add_sixteen(values + i);
  if (i < count) {
    float last[16] = {};
    std::memcpy(last, values + i, (count - i) * sizeof(float));
    add_sixteen(last);
  }
  alignas(64) double lanes[16];
  for (std::size_t k = 0; k < kSums; ++k) hn::Store(sums[k], d, lanes + k * kStep);
  for (std::size_t width = 8; width > 0; width /= 2) {
    for (std::size_t k = 0; k < width; ++k) lanes[k] += lanes[k + width];
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

// What all values of a run share.
struct Job {
  float inverse;
  std::uint32_t random_first;  // key constants of the stream
  std::uint32_t random_second;
};

// Lower index and scaled probability of rounding up, one policy per kind of table.
struct UniformCells {
  explicit UniformCells(const LevelTable& table) : top(table.count - 1) {}

  HWY_INLINE void Find(hn::Vec<F32> r, hn::Vec<I32>& lower, hn::Vec<F32>& up) const {
    const F32 d;
    const I32 di;
    lower = hn::Min(hn::ConvertTo(di, r), hn::Set(di, top));
    up = hn::Mul(hn::Sub(r, hn::ConvertTo(d, lower)), hn::Set(d, 0x1p24f));
  }

  std::int32_t top;
};

// At most kLanes cells: binary search by permutations of registers, 2^kSteps cells.
template <int kSteps>
struct RegisterCells {
  explicit RegisterCells(const LevelTable& table) {
    const F32 d;
    levels = hn::LoadU(d, table.level.data());
    slopes = hn::LoadU(d, table.slope.data());
    // l_n = 1 is no bound: r = 1 belongs to the last cell.
    const auto cells = hn::Set(d, static_cast<float>(table.count));
    const auto lane = hn::Iota(d, 0.0f);
    bounds =
        hn::IfThenElse(hn::Lt(lane, cells), levels, hn::Set(d, std::bit_cast<float>(0x7F800000)));
  }

  HWY_INLINE void Find(hn::Vec<F32> r, hn::Vec<I32>& lower, hn::Vec<F32>& up) const {
    const F32 d;
    const I32 di;
    lower = hn::Zero(di);
    for (int step = 1 << kSteps >> 1; step > 0; step >>= 1) {
      const auto probe = hn::Add(lower, hn::Set(di, step));
      const auto bound = hn::TableLookupLanes(bounds, hn::IndicesFromVec(d, probe));
      lower = hn::IfThenElse(hn::RebindMask(di, hn::Ge(r, bound)), probe, lower);
    }
    const auto index = hn::IndicesFromVec(d, lower);
    up = hn::Mul(hn::Sub(r, hn::TableLookupLanes(levels, index)),
                 hn::TableLookupLanes(slopes, index));
  }

  hn::Vec<F32> levels, slopes, bounds;
};

// Any table: the leading bits of r name a key with at most one level inside.
struct KeyedCells {
  explicit KeyedCells(const LevelTable& t) : table(t) {}

  HWY_INLINE void Find(hn::Vec<F32> r, hn::Vec<I32>& lower, hn::Vec<F32>& up) const {
    const F32 d;
    const I32 di;
    const auto last = static_cast<std::int32_t>(table.base.size()) - 1;
    auto key = hn::ShiftRightSame(hn::BitCast(di, r), table.shift);
    key = hn::Sub(key, hn::Set(di, table.first_key));
    key = hn::Min(hn::Max(key, hn::Zero(di)), hn::Set(di, last));
    const auto reached = hn::Ge(r, hn::GatherIndex(d, table.threshold.data(), key));
    lower = hn::GatherIndex(di, table.base.data(), key);
    lower = hn::Sub(lower, hn::VecFromMask(di, hn::RebindMask(di, reached)));
    up = hn::Mul(hn::Sub(r, hn::GatherIndex(d, table.level.data(), lower)),
                 hn::GatherIndex(d, table.slope.data(), lower));
  }

  const LevelTable& table;
};

// RandomStream::bits() of indices whose product with its first multiplier is `scaled`.
HWY_INLINE hn::Vec<U32> RandomWords(hn::Vec<U32> scaled, const Job& job) {
  const U32 d;
  auto h = hn::Add(scaled, hn::Set(d, job.random_first));
  h = hn::Mul(hn::Xor(h, hn::ShiftRight<16>(h)), hn::Set(d, 0x21F0AAADu));
  h = hn::Add(hn::Xor(h, hn::ShiftRight<15>(h)), hn::Set(d, job.random_second));
  h = hn::Mul(h, hn::Set(d, 0xD35A2D97u));
  return hn::Xor(h, hn::ShiftRight<15>(h));
}

template <typename Cells>
HWY_INLINE hn::Vec<Codes> QuantizeVector(hn::Vec<F32> v, hn::Vec<U32> scaled, const Cells& cells,
                                         const Job& job) {
  const F32 d;
  const I32 di;
  const U32 du;
  hn::Vec<I32> index;
  hn::Vec<F32> up;
  cells.Find(hn::Mul(hn::Abs(v), hn::Set(d, job.inverse)), index, up);
  const auto u = hn::ConvertTo(d, hn::BitCast(di, hn::ShiftRight<8>(RandomWords(scaled, job))));
  index = hn::Sub(index, hn::VecFromMask(di, hn::RebindMask(di, hn::Lt(u, up))));
  const auto sign = hn::And(hn::ShiftRight<24>(hn::BitCast(du, v)), hn::Set(du, kSignCode));
  const auto nonzero = hn::RebindMask(du, hn::Gt(index, hn::Zero(di)));
  return hn::TruncateTo(Codes(), hn::Or(hn::BitCast(du, index), hn::IfThenElseZero(nonzero, sign)));
}

template <typename Cells>
void QuantizeWith(const Cells& cells, const Job& job, const float* values, std::size_t count,
                  std::uint32_t first_index, std::uint8_t* codes) {
  const F32 d;
  const U32 du;
  const Codes dc;
  constexpr std::uint32_t kMultiplier = 0x9E3779B1u;
  auto scaled = hn::Mul(hn::Iota(du, first_index), hn::Set(du, kMultiplier));
  const auto advance = hn::Set(du, kMultiplier * static_cast<std::uint32_t>(kLanes));
  std::size_t i = 0;
  for (; i + kLanes <= count; i += kLanes, scaled = hn::Add(scaled, advance)) {
    hn::StoreU(QuantizeVector(hn::LoadU(d, values + i), scaled, cells, job), dc, codes + i);
  }
  if (i < count) {
    alignas(64) float last[kLanes] = {};
    alignas(64) std::uint8_t last_codes[kLanes];
    std::memcpy(last, values + i, (count - i) * sizeof(float));
    hn::Store(QuantizeVector(hn::Load(d, last), scaled, cells, job), dc, last_codes);
    std::memcpy(codes + i, last_codes, count - i);
  }
}

void Quantize(const LevelTable& table, float inverse, const RandomStream& stream,
              std::uint32_t first_index, std::span<const float> values, std::uint8_t* codes) {
  const Job job{inverse, stream.first(), stream.second()};
  const auto run = [&](const auto& cells) HWY_ATTR {
    QuantizeWith(cells, job, values.data(), values.size(), first_index, codes);
  };
  const auto cells = static_cast<std::size_t>(table.count);
  if (table.uniform) return run(UniformCells(table));
  if (cells == 1 && kLanes >= 1) return run(RegisterCells<0>(table));
  if (cells <= 4 && kLanes >= 4) return run(RegisterCells<2>(table));
  if (cells <= 8 && kLanes >= 8) return run(RegisterCells<3>(table));
  if (cells <= 16 && kLanes >= 16) return run(RegisterCells<4>(table));
  return run(KeyedCells(table));
}

void PackNibbles(const std::uint8_t* codes, std::size_t count, std::uint8_t* nibbles) {
  const hn::ScalableTag<std::uint16_t> d;
  const hn::Rebind<std::uint8_t, decltype(d)> d_bytes;
  constexpr std::size_t kPairs = hn::MaxLanes(d);
  std::size_t pair = 0;
  for (; (pair + kPairs) * 2 <= count; pair += kPairs) {
    const hn::Repartition<std::uint8_t, decltype(d)> d_codes;
    const auto x = hn::BitCast(d, hn::LoadU(d_codes, codes + 2 * pair));
    const auto low = hn::And(x, hn::Set(d, 0x0707));
    const auto y = hn::Or(low, hn::And(hn::ShiftRight<4>(x), hn::Set(d, 0x0808)));
    hn::StoreU(hn::TruncateTo(d_bytes, hn::Or(y, hn::ShiftRight<4>(y))), d_bytes, nibbles + pair);
  }
  const auto nibble = [&](std::size_t i) -> unsigned {
    return i < count ? (codes[i] & 7u) | (codes[i] >> 4 & 8u) : 0u;
  };
  for (; 2 * pair < count; ++pair) {
    nibbles[pair] = static_cast<std::uint8_t>(nibble(2 * pair) | nibble(2 * pair + 1) << 4);
  }
}

// kLanes nibbles to one per lane, garbage above its four bits.
HWY_INLINE hn::Vec<U32> SpreadNibbles(const std::uint8_t* from) {
  const U32 d;
  const hn::ScalableTag<std::uint64_t> d64;
  const hn::Rebind<std::uint32_t, decltype(d64)> d_half;
  const hn::Rebind<std::uint8_t, decltype(d64)> d_bytes;
  const auto byte = hn::PromoteTo(d64, hn::PromoteTo(d_half, hn::LoadU(d_bytes, from)));
  return hn::BitCast(d, hn::Or(byte, hn::ShiftLeft<28>(byte)));
}

std::size_t AddNibblesInRegisters(const std::uint8_t* nibbles, const float* magnitude, float* sum,
                                  std::size_t count) {
  const F32 d;
  const U32 du;
  alignas(64) float padded[kLanes] = {};
  for (std::size_t k = 0; k < 8 && k < kLanes; ++k) padded[k] = magnitude[k];
  const auto table = hn::Load(d, padded);
  std::size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    const auto x = SpreadNibbles(nibbles + i / 2);
    const auto index = hn::IndicesFromVec(d, hn::And(x, hn::Set(du, 7u)));
    const auto sign = hn::ShiftLeft<28>(hn::And(x, hn::Set(du, 8u)));
    const auto value = hn::Xor(hn::TableLookupLanes(table, index), hn::BitCast(d, sign));
    hn::StoreU(hn::Add(hn::LoadU(d, sum + i), value), d, sum + i);
  }
  return i;
}

void AddNibbles(const std::uint8_t* nibbles, const float* magnitude, float* sum,
                std::size_t count) {
  std::size_t i = 0;
  if (kLanes >= 8) i = AddNibblesInRegisters(nibbles, magnitude, sum, count);
  float value[16];
  for (std::size_t k = 0; k < 8; ++k) {
    value[k] = magnitude[k];
    value[k + 8] = -magnitude[k];
  }
  for (; i + 1 < count; i += 2) {
    const unsigned byte = nibbles[i / 2];
    sum[i] += value[byte & 15];
    sum[i + 1] += value[byte >> 4];
  }
  if (i < count) sum[i] += value[nibbles[i / 2] & 15];
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

}  // namespace HWY_NAMESPACE
}  // namespace eqt::codec
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace eqt::codec {

HWY_EXPORT(SumOfSquares);
HWY_EXPORT(LargestMagnitudeBits);
HWY_EXPORT(Quantize);
HWY_EXPORT(PackNibbles);
HWY_EXPORT(AddNibbles);
HWY_EXPORT(AddCodes);

double sum_of_squares(std::span<const float> values) {
  return HWY_DYNAMIC_DISPATCH(SumOfSquares)(values.data(), values.size());
}

std::uint32_t largest_magnitude_bits(std::span<const float> values) {
  return HWY_DYNAMIC_DISPATCH(LargestMagnitudeBits)(values.data(), values.size());
}

void quantize(std::span<const float> values, float inverse, const LevelTable& table,
              const RandomStream& stream, std::uint32_t first_index, std::span<LevelCode> codes) {
  EQT_CHECK(codes.size() == values.size(), "{} codes for {} values", codes.size(), values.size());
  HWY_DYNAMIC_DISPATCH(Quantize)(table, inverse, stream, first_index, values, codes.data());
}

void pack_nibbles(std::span<const LevelCode> codes, std::span<std::byte> nibbles) {
  EQT_CHECK(nibbles.size() == (codes.size() + 1) / 2, "{} bytes for {} nibbles", nibbles.size(),
            codes.size());
  HWY_DYNAMIC_DISPATCH(PackNibbles)
  (codes.data(), codes.size(), reinterpret_cast<std::uint8_t*>(nibbles.data()));
}

void add_nibbles(std::span<const std::byte> nibbles, const float (&magnitude)[8],
                 std::span<float> sum) {
  EQT_CHECK(nibbles.size() == (sum.size() + 1) / 2, "{} bytes for {} nibbles", nibbles.size(),
            sum.size());
  HWY_DYNAMIC_DISPATCH(AddNibbles)
  (reinterpret_cast<const std::uint8_t*>(nibbles.data()), magnitude, sum.data(), sum.size());
}

void add_codes(std::span<const LevelCode> codes, const float (&value)[256], std::span<float> sum) {
  EQT_CHECK(codes.size() == sum.size(), "{} codes for {} values", codes.size(), sum.size());
  HWY_DYNAMIC_DISPATCH(AddCodes)(codes.data(), value, sum.data(), sum.size());
}

}  // namespace eqt::codec
#endif  // HWY_ONCE
