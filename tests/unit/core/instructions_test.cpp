// SPDX-License-Identifier: Apache-2.0
#include "core/instructions.hpp"

#include <cstdlib>

#include "core/error.hpp"
#include "support/catch.hpp"

using namespace eqt;
using Catch::Matchers::Contains;

TEST_CASE("the environment keeps kernels to a processor's baseline, by one word") {
  struct Restore {
    ~Restore() { unsetenv("EQT_SIMD"); }
  } restore;
  unsetenv("EQT_SIMD");
  CHECK_FALSE(baseline_only());
  setenv("EQT_SIMD", "baseline", 1);
  CHECK(baseline_only());
  for (const char* const text : {"", "Baseline", "avx2"}) {
    setenv("EQT_SIMD", text, 1);
    CHECK_THROWS_WITH(baseline_only(), Contains("EQT_SIMD") && Contains(text));
  }
}
