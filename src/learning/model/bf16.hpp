// SPDX-License-Identifier: Apache-2.0
// What a network in bf16 computes with on this processor. No torch in this header.

#pragma once

#include <string_view>

namespace eqt::model {

enum class Bf16Arithmetic {
  none,     // a build without LibTorch
  native,   // products of bf16, sums in float32
  storage,  // images are kept in bf16; convolutions compute in float32
};

/// Native on processors with avx512_bf16, if LibTorch has oneDNN. Without the instructions bf16
/// convolutions of LibTorch are slower than float32's. The environment's EQT_BF16=storage chooses
/// storage, for tests.
Bf16Arithmetic bf16_arithmetic();

/// "bf16 products, float32 sums", "float32, images kept in bf16" or "none in this build".
std::string_view describe(Bf16Arithmetic arithmetic);

}  // namespace eqt::model
