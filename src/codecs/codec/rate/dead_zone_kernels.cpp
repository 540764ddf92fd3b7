// SPDX-License-Identifier: Apache-2.0
#include "codec/rate/dead_zone_kernels.hpp"

#include <algorithm>
#include <cstring>

#include "core/error.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "codec/rate/dead_zone_kernels.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

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

}  // namespace
}  // namespace eqt::codec
#endif

HWY_BEFORE_NAMESPACE();
namespace eqt::codec::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
using Codes = hn::Rebind<std::uint8_t, U32>;

// kLanes values to codes.
HWY_INLINE void QuantizeVector(const DeadZoneJob& job, const float* from, std::uint8_t* to) {
  const F32 d;
  const U32 du;
  const I32 di;
  const Codes dc;
  const auto v = hn::LoadU(d, from);
  const auto position =
      hn::Add(hn::Mul(hn::Abs(v), hn::Set(d, job.inverse)), hn::Set(d, job.offset));
  const auto most = hn::Set(d, static_cast<float>(job.escape));
  const auto index = hn::BitCast(du, hn::ConvertTo(di, hn::Min(position, most)));
  const auto sign = hn::And(hn::ShiftRight<24>(hn::BitCast(du, v)), hn::Set(du, kSignCode));
  const auto zero = hn::Eq(index, hn::Zero(du));
  hn::StoreU(hn::TruncateTo(dc, hn::Or(index, hn::IfThenZeroElse(zero, sign))), dc, to);
}

void QuantizeDeadZone(const DeadZoneJob& job, std::span<const float> values, std::uint8_t* codes) {
  std::size_t i = 0;
  for (; i + kLanes <= values.size(); i += kLanes)
    QuantizeVector(job, values.data() + i, codes + i);
  if (i == values.size()) return;
  HWY_ALIGN float last[kLanes] = {};
  HWY_ALIGN std::uint8_t last_codes[kLanes];
  std::memcpy(last, values.data() + i, (values.size() - i) * sizeof(float));
  QuantizeVector(job, last, last_codes);
  std::memcpy(codes + i, last_codes, values.size() - i);
}

std::uint32_t Compensate(std::span<const float> gradient, float* residual) {
  const F32 d;
  const U32 du;
  auto largest = hn::Zero(du);
  std::size_t i = 0;
  for (; i + kLanes <= gradient.size(); i += kLanes) {
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

HWY_EXPORT(QuantizeDeadZone);
HWY_EXPORT(Compensate);

void quantize_dead_zone(std::span<const float> values, float inverse, float offset,
                        std::uint32_t escape, std::span<LevelCode> codes) {
  EQT_CHECK(codes.size() == values.size(), "{} codes for {} values", codes.size(), values.size());
  HWY_DYNAMIC_DISPATCH(QuantizeDeadZone)({inverse, offset, escape}, values, codes.data());
}

std::uint32_t compensate(std::span<const float> gradient, std::span<float> residual) {
  EQT_CHECK(residual.size() == gradient.size(), "{} residuals for {} values", residual.size(),
            gradient.size());
  return HWY_DYNAMIC_DISPATCH(Compensate)(gradient, residual.data());
}

}  // namespace eqt::codec
#endif  // HWY_ONCE
