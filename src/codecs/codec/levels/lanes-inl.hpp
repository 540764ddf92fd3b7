// SPDX-License-Identifier: Apache-2.0
// The vectors of the kernels for levels. Included once per vector target, inside the files that
// Highway compiles for each.

#include <hwy/highway.h>

#include <cstddef>
#include <cstdint>

// Either both or neither is defined: the guard flips with each target.
#if defined(EQT_CODEC_LANES_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef EQT_CODEC_LANES_INL_HPP
#undef EQT_CODEC_LANES_INL_HPP
#else
#define EQT_CODEC_LANES_INL_HPP
#endif

HWY_BEFORE_NAMESPACE();
namespace eqt::codec::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using F32 = hn::ScalableTag<float>;
using U32 = hn::ScalableTag<std::uint32_t>;
using I32 = hn::ScalableTag<std::int32_t>;
constexpr std::size_t kLanes = hn::MaxLanes(F32());

}  // namespace eqt::codec::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // guard
