// SPDX-License-Identifier: Apache-2.0
#include "model/bf16.hpp"

#include <ATen/Context.h>

#include <cstdlib>

namespace eqt::model {
namespace {

bool has_instructions() {
#if defined(__x86_64__)
  return __builtin_cpu_supports("avx512bf16") != 0;
#else
  return false;  // LibTorch 1.13 uses those of Arm processors for inference only
#endif
}

}  // namespace

Bf16Arithmetic bf16_arithmetic() {
  const char* const chosen = std::getenv("EQT_BF16");
  const bool native = has_instructions() && at::globalContext().hasMKLDNN() &&
                      (chosen == nullptr || std::string_view(chosen) != "storage");
  return native ? Bf16Arithmetic::native : Bf16Arithmetic::storage;
}

std::string_view describe(Bf16Arithmetic arithmetic) {
  return arithmetic == Bf16Arithmetic::native ? "bf16 products, float32 sums"
                                              : "float32, images kept in bf16";
}

}  // namespace eqt::model
