// SPDX-License-Identifier: Apache-2.0
#include "core/instructions.hpp"

#include <cstdlib>
#include <string_view>

#include "core/error.hpp"

namespace eqt {

Instructions allowed_instructions() {
  const char* const text = std::getenv("EQT_SIMD");
  if (text == nullptr) return Instructions::all;
  if (std::string_view(text) == "baseline") return Instructions::baseline;
#if defined(__x86_64__)
  if (std::string_view(text) == "avx2") return Instructions::avx2;
  if (std::string_view(text) == "avx512") return Instructions::avx512;
  constexpr std::string_view kWords = "baseline, avx2 or avx512";
#else
  constexpr std::string_view kWords = "baseline";
#endif
  fail(Kind::usage,
       "environment: expected EQT_SIMD to be {}, found \"{}\"; unset it for the fastest "
       "instructions of this processor",
       kWords, text);
}

}  // namespace eqt
