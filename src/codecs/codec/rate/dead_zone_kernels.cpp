// SPDX-License-Identifier: Apache-2.0
#include "codec/rate/dead_zone_kernels.hpp"

#include <algorithm>
#include <cstring>

#include "core/error.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "codec/rate/dead_zone_kernels.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "codec/prefetch.hpp"
#include "codec/vectors-inl.hpp"

#ifndef EQT_CODEC_DEAD_ZONE_KERNELS_ONCE
#define EQT_CODEC_DEAD_ZONE_KERNELS_ONCE
namespace eqt::codec {
namespace {

struct DeadZoneJob {
  float inverse;
  float offset;
  std::uint32_t escape;
};

constexpr float kLargestIndex = 0x1p20f;

}  // namespace
}  // namespace eqt::codec
#endif

HWY_BEFORE_NAMESPACE();
namespace eqt::codec::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
using Codes = hn::Rebind<std::uint8_t, U32>;

// Calls work(from, to) with kLanes floats and kLanes bytes at a time; the last ones are copies.
template <typename Work>
HWY_INLINE void ForVectors(std::span<const float> values, std::uint8_t* bytes, const Work& work) {
  std::size_t i = 0;
  for (; i + kLanes <= values.size(); i += kLanes) work(values.data() + i, bytes + i, i);
  if (i == values.size()) return;
  HWY_ALIGN float last[kLanes] = {};
  HWY_ALIGN std::uint8_t last_bytes[kLanes];
  std::memcpy(last, values.data() + i, (values.size() - i) * sizeof(float));
  work(last, last_bytes, i);
  std::memcpy(bytes + i, last_bytes, values.size() - i);
}

void QuantizeDeadZone(const DeadZoneJob& job, std::span<const float> values, std::uint8_t* codes) {
  const F32 d;
  const U32 du;
  const I32 di;
  const Codes dc;
  // Copies, because codes are bytes, whose stores may change any memory.
  const auto inverse = hn::Set(d, job.inverse), offset = hn::Set(d, job.offset);
  const auto most = hn::Set(d, static_cast<float>(job.escape));
  ForVectors(values, codes, [=](const float* from, std::uint8_t* to, std::size_t) HWY_ATTR {
    const auto v = hn::LoadU(d, from);
    const auto position = hn::Add(hn::Mul(hn::Abs(v), inverse), offset);
    const auto index = hn::BitCast(du, hn::ConvertTo(di, hn::Min(position, most)));
    const auto sign = hn::And(hn::ShiftRight<24>(hn::BitCast(du, v)), hn::Set(du, kSignCode));
    const auto zero = hn::Eq(index, hn::Zero(du));
    hn::StoreU(hn::TruncateTo(dc, hn::Or(index, hn::IfThenZeroElse(zero, sign))), dc, to);
  });
}

HWY_INLINE void BinsOfVector(const float* from, const BinRange& range, std::uint8_t* to) {
  const F32 d;
  const U32 du;
  const Codes dc;
  const auto bits = hn::BitCast(du, hn::Abs(hn::LoadU(d, from)));
  const auto first = hn::Set(du, range.first);
  const auto bin =
      hn::Min(hn::Max(hn::ShiftRightSame(bits, range.shift), first), hn::Set(du, range.last));
  hn::StoreU(hn::TruncateTo(dc, hn::Sub(bin, first)), dc, to);
}

void MagnitudeBins(std::span<const float> values, const BinRange& range, std::uint8_t* bins) {
  const BinRange own = range;  // a copy: bytes that are stored may change any memory
  ForVectors(values, bins, [=](const float* from, std::uint8_t* to, std::size_t) HWY_ATTR {
    BinsOfVector(from, own, to);
  });
}

void SampledBins(std::span<const float> values, const BinRange& range, std::uint8_t* bins) {
  static_assert(kSampled % kLanes == 0);
  const BinRange own = range;
  std::size_t place = 0;
  for (std::size_t at = 0; at + kSampledOf <= values.size(); at += kSampledOf) {
    for (std::size_t k = 0; k < kSampled; k += kLanes, bins += kLanes)
      BinsOfVector(values.data() + at + place + k, own, bins);
    place = (place + kSampled) % kSampledOf;
  }
}

void QuantizeSplit(float inverse, const SplitIndex& split, std::span<const float> values,
                   std::uint8_t* codes, std::uint8_t* lower) {
  const F32 d;
  const U32 du;
  const I32 di;
  const Codes dc;
  const int low_bits = split.low_bits;
  const auto factor = hn::Set(d, inverse), half = hn::Set(d, 0.5f);
  const auto most_index = hn::Set(d, kLargestIndex);
  const auto centre = hn::Set(di, 1 << (low_bits - 1)), mask = hn::Set(di, (1 << low_bits) - 1);
  const auto most = hn::Set(di, static_cast<std::int32_t>(split.escape));
  const std::size_t count = values.size();
  ForVectors(values, codes, [=](const float* from, std::uint8_t* to, std::size_t i) HWY_ATTR {
    const auto v = hn::LoadU(d, from);
    const auto position = hn::Add(hn::Mul(hn::Abs(v), factor), half);
    const auto magnitude = hn::ConvertTo(di, hn::Min(position, most_index));
    const auto negative = hn::BroadcastSignBit(hn::BitCast(di, v));
    const auto moved = hn::Add(hn::Sub(hn::Xor(magnitude, negative), negative), centre);
    const auto upper = hn::ShiftRightSame(moved, low_bits);  // rounds down
    const auto size = hn::Min(hn::Abs(upper), most);
    const auto sign = hn::And(hn::BroadcastSignBit(upper), hn::Set(di, kSignCode));
    const auto low = hn::IfThenZeroElse(hn::Eq(size, most), hn::And(moved, mask));
    hn::StoreU(hn::TruncateTo(dc, hn::BitCast(du, hn::Or(size, sign))), dc, to);
    const auto lows = hn::TruncateTo(dc, hn::BitCast(du, low));
    if (i + kLanes <= count) return hn::StoreU(lows, dc, lower + i);
    HWY_ALIGN std::uint8_t last[kLanes];
    hn::Store(lows, dc, last);
    std::memcpy(lower + i, last, count - i);
  });
}

void AddSplit(const SplitIndex& split, float step, float scale, const std::uint8_t* codes,
              const std::uint8_t* lower, std::span<float> sum) {
  const F32 d;
  const I32 di;
  const Codes dc;
  const int low_bits = split.low_bits;
  const auto escape = static_cast<std::int32_t>(split.escape);
  const auto centre = hn::Set(di, 1 << (low_bits - 1));
  std::size_t i = 0;
  for (; i + kLanes <= sum.size(); i += kLanes) {
    const auto code = hn::PromoteTo(di, hn::LoadU(dc, codes + i));
    const auto size = hn::And(code, hn::Set(di, kSignCode - 1));
    const auto negative = hn::Gt(code, hn::Set(di, kSignCode - 1));
    const auto upper = hn::IfThenElse(negative, hn::Neg(size), size);
    const auto low = hn::PromoteTo(di, hn::LoadU(dc, lower + i));
    const auto index = hn::Add(hn::ShiftLeftSame(upper, low_bits), hn::Sub(low, centre));
    const auto kept = hn::IfThenZeroElse(hn::Eq(size, hn::Set(di, escape)), index);
    const auto value =
        hn::Mul(hn::Set(d, scale), hn::Mul(hn::ConvertTo(d, kept), hn::Set(d, step)));
    hn::StoreU(hn::Add(hn::LoadU(d, sum.data() + i), value), d, sum.data() + i);
  }
  for (; i < sum.size(); ++i) {
    const std::int32_t size = codes[i] & (kSignCode - 1);
    if (size == escape) continue;
    const std::int32_t upper = codes[i] >= kSignCode ? -size : size;
    const std::int32_t index = upper * (1 << low_bits) + lower[i] - (1 << (low_bits - 1));
    sum[i] += scale * (static_cast<float>(index) * step);
  }
}

#if HWY_TARGET == HWY_SCALAR  // has no vectors of bytes
std::size_t WriteWholeBytes(const std::uint8_t*, std::size_t, int, std::byte*) { return 0; }
std::size_t ReadWholeBytes(const std::byte*, int, std::uint8_t*, std::size_t) { return 0; }
#else

using Bytes = hn::CappedTag<std::uint8_t, 64>;

// Bits `plane` of as many bytes as vectors hold. Returns the bytes of `lower` that it has taken.
std::size_t WriteWholeBytes(const std::uint8_t* lower, std::size_t count, int plane,
                            std::byte* row) {
  const Bytes d;
  const std::size_t lanes = hn::Lanes(d);
  const auto bit = hn::Set(d, static_cast<std::uint8_t>(1 << plane));
  std::size_t i = 0;
  for (; i + lanes <= count; i += lanes)
    hn::StoreMaskBits(d, hn::TestBit(hn::LoadU(d, lower + i), bit),
                      reinterpret_cast<std::uint8_t*>(row + i / 8));
  return i;
}

std::size_t ReadWholeBytes(const std::byte* row, int plane, std::uint8_t* lower,
                           std::size_t count) {
  const Bytes d;
  const std::size_t lanes = hn::Lanes(d);
  const auto bit = hn::Set(d, static_cast<std::uint8_t>(1 << plane));
  std::size_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    // LoadMaskBits() may read eight bytes.
    std::uint8_t bits[8] = {};
    std::memcpy(bits, row + i / 8, lanes / 8);
    const auto set = hn::IfThenElseZero(hn::LoadMaskBits(d, bits), bit);
    hn::StoreU(plane == 0 ? set : hn::Or(hn::LoadU(d, lower + i), set), d, lower + i);
  }
  return i;
}
#endif

void WritePlane(const std::uint8_t* lower, std::size_t count, int plane, std::byte* row) {
  const std::size_t done = WriteWholeBytes(lower, count, plane, row);
  std::fill(row + done / 8, row + plane_bytes(count), std::byte{0});
  for (std::size_t i = done; i < count; ++i)
    row[i / 8] |= static_cast<std::byte>((lower[i] >> plane & 1) << i % 8);
}

void ReadPlane(const std::byte* row, int plane, std::uint8_t* lower, std::size_t count) {
  for (std::size_t i = ReadWholeBytes(row, plane, lower, count); i < count; ++i) {
    const auto bit = std::to_integer<unsigned>(row[i / 8]) >> i % 8 & 1;
    lower[i] = static_cast<std::uint8_t>((plane == 0 ? 0 : lower[i]) | bit << plane);
  }
}

std::uint32_t Compensate(std::span<const float> gradient, float* residual) {
  const F32 d;
  const U32 du;
  auto largest = hn::Zero(du);
  std::size_t i = 0;
  for (; i + kLanes <= gradient.size(); i += kLanes) {
    if (i % 64 == 0) {
      prefetch_pages(gradient.data() + i, 64);
      prefetch_pages(residual + i, 64);
    }
    const auto sum = hn::Add(hn::LoadU(d, residual + i), hn::LoadU(d, gradient.data() + i));
    hn::StoreU(sum, d, residual + i);
    largest = hn::Max(largest, hn::BitCast(du, hn::Abs(sum)));
  }
  std::uint32_t most = hn::GetLane(hn::MaxOfLanes(du, largest));
  for (; i < gradient.size(); ++i) {
    residual[i] += gradient[i];
    std::uint32_t bits;
    std::memcpy(&bits, residual + i, sizeof(bits));
    most = std::max(most, bits & 0x7FFFFFFFu);
  }
  return most;
}

}  // namespace
}  // namespace eqt::codec::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace eqt::codec {

HWY_EXPORT(AddSplit);
HWY_EXPORT(Compensate);
HWY_EXPORT(MagnitudeBins);
HWY_EXPORT(QuantizeDeadZone);
HWY_EXPORT(QuantizeSplit);
HWY_EXPORT(ReadPlane);
HWY_EXPORT(SampledBins);
HWY_EXPORT(WritePlane);

std::uint32_t compensate(std::span<const float> gradient, std::span<float> residual) {
  EQT_CHECK(residual.size() == gradient.size(), "{} residuals for {} values", residual.size(),
            gradient.size());
  return HWY_DYNAMIC_DISPATCH(Compensate)(gradient, residual.data());
}

void magnitude_bins(std::span<const float> values, const BinRange& range,
                    std::span<std::uint8_t> bins) {
  EQT_CHECK(bins.size() == values.size(), "{} bins for {} values", bins.size(), values.size());
  HWY_DYNAMIC_DISPATCH(MagnitudeBins)(values, range, bins.data());
}

void sampled_bins(std::span<const float> values, const BinRange& range,
                  std::span<std::uint8_t> bins) {
  EQT_CHECK(bins.size() == values.size() / kSampledOf * kSampled, "{} bins of a sample of {}",
            bins.size(), values.size());
  HWY_DYNAMIC_DISPATCH(SampledBins)(values, range, bins.data());
}

void quantize_dead_zone(std::span<const float> values, float inverse, float offset,
                        std::uint32_t escape, std::span<LevelCode> codes) {
  EQT_CHECK(codes.size() == values.size(), "{} codes for {} values", codes.size(), values.size());
  HWY_DYNAMIC_DISPATCH(QuantizeDeadZone)({inverse, offset, escape}, values, codes.data());
}

void quantize_split(std::span<const float> values, float inverse, const SplitIndex& split,
                    std::span<LevelCode> codes, std::span<std::uint8_t> lower) {
  EQT_CHECK(codes.size() == values.size() && lower.size() == values.size(),
            "{} codes and {} lower bits for {} values", codes.size(), lower.size(), values.size());
  HWY_DYNAMIC_DISPATCH(QuantizeSplit)(inverse, split, values, codes.data(), lower.data());
}

void add_split(std::span<const LevelCode> codes, std::span<const std::uint8_t> lower,
               const SplitIndex& split, float step, float scale, std::span<float> sum) {
  EQT_CHECK(codes.size() == sum.size() && lower.size() == sum.size(),
            "{} codes and {} lower bits for {} values", codes.size(), lower.size(), sum.size());
  HWY_DYNAMIC_DISPATCH(AddSplit)(split, step, scale, codes.data(), lower.data(), sum);
}

void write_planes(std::span<const std::uint8_t> lower, int count, std::span<std::byte> planes) {
  const std::size_t row = plane_bytes(lower.size());
  EQT_CHECK(planes.size() == static_cast<std::size_t>(count) * row, "{} bytes for {} planes of {}",
            planes.size(), count, row);
  for (int plane = 0; plane < count; ++plane) HWY_DYNAMIC_DISPATCH(WritePlane)
  (lower.data(), lower.size(), plane, planes.data() + static_cast<std::size_t>(plane) * row);
}

void read_planes(std::span<const std::byte> planes, int count, std::span<std::uint8_t> lower) {
  const std::size_t row = plane_bytes(lower.size());
  EQT_CHECK(planes.size() == static_cast<std::size_t>(count) * row, "{} bytes for {} planes of {}",
            planes.size(), count, row);
  for (int plane = 0; plane < count; ++plane) HWY_DYNAMIC_DISPATCH(ReadPlane)
  (planes.data() + static_cast<std::size_t>(plane) * row, plane, lower.data(), lower.size());
}

}  // namespace eqt::codec
#endif  // HWY_ONCE
