// SPDX-License-Identifier: Apache-2.0
#include "model/torch/bf16_kernels.hpp"

#include <cstddef>

#include "core/error.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "model/torch/bf16_kernels.cpp"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

#include "model/vectors-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace eqt::model::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

void WidenBf16(std::span<const std::uint16_t> from, std::span<float> to) {
  for_each_vector(from.size(), [&](auto d, std::size_t i) HWY_ATTR {
    const hn::Rebind<std::uint32_t, decltype(d)> wide;
    const hn::Rebind<std::uint16_t, decltype(d)> half;
    const auto bits = hn::PromoteTo(wide, hn::LoadU(half, &from[i]));
    hn::StoreU(hn::BitCast(d, hn::ShiftLeft<16>(bits)), d, &to[i]);
  });
}

void NarrowToBf16(std::span<const float> from, std::span<std::uint16_t> to) {
  for_each_vector(from.size(), [&](auto d, std::size_t i) HWY_ATTR {
    const hn::Rebind<std::uint32_t, decltype(d)> wide;
    const hn::Rebind<std::int32_t, decltype(d)> integer;
    const hn::Rebind<std::uint16_t, decltype(d)> half;
    const auto v = hn::LoadU(d, &from[i]);
    const auto bits = hn::BitCast(wide, v);
    const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(wide, 1));
    const auto nearest = hn::Add(hn::Add(bits, hn::Set(wide, 0x7FFF)), odd);
    // Rounding could carry all the bits of what is not a number into the sign.
    const auto quiet = hn::Or(bits, hn::Set(wide, 0x400000));
    const auto is_number = hn::RebindMask(wide, hn::Eq(v, v));
    const auto chosen = hn::ShiftRight<16>(hn::IfThenElse(is_number, nearest, quiet));
    hn::StoreU(hn::DemoteTo(half, hn::BitCast(integer, chosen)), half, &to[i]);
  });
}

}  // namespace eqt::model::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace eqt::model {

HWY_EXPORT(WidenBf16);
HWY_EXPORT(NarrowToBf16);

void widen_bf16(std::span<const std::uint16_t> from, std::span<float> to) {
  EQT_DCHECK(to.size() == from.size(), "{} values into {}", from.size(), to.size());
  HWY_DYNAMIC_DISPATCH(WidenBf16)(from, to);
}

void narrow_to_bf16(std::span<const float> from, std::span<std::uint16_t> to) {
  EQT_DCHECK(to.size() == from.size(), "{} values into {}", from.size(), to.size());
  HWY_DYNAMIC_DISPATCH(NarrowToBf16)(from, to);
}

}  // namespace eqt::model
#endif
