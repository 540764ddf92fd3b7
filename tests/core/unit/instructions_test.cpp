// SPDX-License-Identifier: Apache-2.0
#include "core/instructions.hpp"

#include <cstdlib>

#include "core/error.hpp"
#include "support/catch.hpp"

using namespace eqt;
using Catch::Matchers::ContainsSubstring;

TEST_CASE("the environment keeps kernels to fewer instructions, by one word") {
  struct Restore {
    ~Restore() { unsetenv("EQT_SIMD"); }
  } restore;
  unsetenv("EQT_SIMD");
  CHECK(allowed_instructions() == Instructions::all);
  setenv("EQT_SIMD", "baseline", 1);
  CHECK(allowed_instructions() == Instructions::baseline);
#if defined(__x86_64__)
  setenv("EQT_SIMD", "avx2", 1);
  CHECK(allowed_instructions() == Instructions::avx2);
  setenv("EQT_SIMD", "avx512", 1);
  CHECK(allowed_instructions() == Instructions::avx512);
#endif
  for (const char* const text : {"", "Baseline", "avx9"}) {
    setenv("EQT_SIMD", text, 1);
    CHECK_THROWS_WITH(allowed_instructions(),
                      ContainsSubstring("EQT_SIMD") && ContainsSubstring(text));
  }
}
