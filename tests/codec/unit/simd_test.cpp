// SPDX-License-Identifier: Apache-2.0
// EQT_SIMD decides which kernels run, and what is told of them.
#include "codec/simd.hpp"

#include <cstdint>
#include <cstdlib>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "codec/unit/simd_test.cpp"
#include "hwy/foreach_target.h"  // must precede highway.h
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace eqt::codec {
namespace HWY_NAMESPACE {

std::int64_t Target() { return HWY_TARGET; }

}  // namespace HWY_NAMESPACE
}  // namespace eqt::codec
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "support/catch.hpp"

namespace eqt::codec {

HWY_EXPORT(Target);

TEST_CASE("EQT_SIMD decides which kernels run, and what is told of them") {
  struct Restore {
    ~Restore() {
      unsetenv("EQT_SIMD");
      hwy::DisableTargets(0);
    }
  } restore;
  // What is told must not change what runs.
  const auto runs = [] {
    restrict_simd();
    const std::string told = simd_target();
    const std::int64_t target = HWY_DYNAMIC_DISPATCH(Target)();
    // Some kernels are compiled for a target better than this file's best.
    if (std::getenv("EQT_SIMD") != nullptr) CHECK(told == hwy::TargetName(target));
    return target;
  };
  unsetenv("EQT_SIMD");
  [[maybe_unused]] const std::int64_t best = runs();
  setenv("EQT_SIMD", "baseline", 1);
  CHECK(runs() == HWY_STATIC_TARGET);
#if defined(__x86_64__)
  hwy::DisableTargets(0);
  setenv("EQT_SIMD", "avx2", 1);
  const bool better_than_avx2 = best < HWY_AVX2;  // better targets are lower bits
  CHECK(runs() == (better_than_avx2 ? HWY_AVX2 : best));
#endif
}

}  // namespace eqt::codec
#endif  // HWY_ONCE
