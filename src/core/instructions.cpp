// SPDX-License-Identifier: Apache-2.0
#include "core/instructions.hpp"

#include <cstdlib>
#include <string_view>

#include "core/error.hpp"

namespace eqt {

bool baseline_only() {
  const char* const text = std::getenv("EQT_SIMD");
  if (text == nullptr) return false;
  if (std::string_view(text) != "baseline")
    fail(Kind::usage,
         "environment: expected EQT_SIMD to be baseline, found \"{}\"; unset it for the fastest "
         "instructions of this processor",
         text);
  return true;
}

}  // namespace eqt
