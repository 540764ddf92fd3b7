// SPDX-License-Identifier: Apache-2.0
#include "codec/simd.hpp"

#include <hwy/targets.h>

#include "core/instructions.hpp"

// Highway 1.0.3 narrows 32 bits to 8 wrongly for this target, and level codes with it. Where it is
// one of several, only rans_kernels.cpp is compiled for it, which does not narrow.
#if HWY_STATIC_TARGET == HWY_AVX3_DL
#error "expected a baseline below AVX3_DL, as -march=native gives it here; add -mno-gfni"
#endif

namespace eqt::codec {

std::string simd_target() {
  const auto supported = hwy::SupportedTargets();
  // Highway 1.0.3 has made kernels use what the processor has, disabled or not.
  hwy::GetChosenTarget().Update(supported);
  // The targets are single bits, the best one lowest.
  return hwy::TargetName(supported & -supported);
}

void restrict_simd() {
  switch (allowed_instructions()) {
    case Instructions::baseline:
      return hwy::DisableTargets(~std::int64_t{HWY_STATIC_TARGET});
    case Instructions::avx2:
      return hwy::DisableTargets(std::int64_t{HWY_AVX2} - 1);  // better targets are lower bits
    case Instructions::avx512:
    case Instructions::all:
      return;
  }
}

}  // namespace eqt::codec
