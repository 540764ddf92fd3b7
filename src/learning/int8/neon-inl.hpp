// SPDX-License-Identifier: Apache-2.0
// What the two families of NEON have in common. Empty for other processors.
#ifdef __aarch64__
#include <arm_neon.h>

#include "int8/tiles-inl.hpp"

namespace eqt::int8 {
namespace {

struct Neon {
  static constexpr std::size_t kRows = 4, kMostBlocks = 1, kWidth = 4;
  static constexpr int kOffset = 0;
  using Element = std::int8_t;
  using Sums = int32x4_t;

  static Sums zero() { return vdupq_n_s32(0); }
  static int8x16_t bytes(const std::byte* p) {
    return vld1q_s8(reinterpret_cast<const std::int8_t*>(p));
  }
  static void store(float* to, Sums sums, const std::int32_t* correction, float scale,
                    const float* lane_scales) {
    const int32x4_t exact = vsubq_s32(sums, vld1q_s32(correction));
    const float32x4_t factor = vmulq_f32(vdupq_n_f32(scale), vld1q_f32(lane_scales));
    vst1q_f32(to, vmulq_f32(vcvtq_f32_s32(exact), factor));
  }
  static void add(float* to, Sums sums, std::int32_t correction, float scale) {
    const int32x4_t exact = vsubq_s32(sums, vdupq_n_s32(correction));
    const float32x4_t product = vmulq_f32(vcvtq_f32_s32(exact), vdupq_n_f32(scale));
    vst1q_f32(to, vaddq_f32(vld1q_f32(to), product));
  }
};

}  // namespace
}  // namespace eqt::int8

#endif  // __aarch64__
